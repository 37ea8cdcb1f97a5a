import { monitorEventLoopDelay } from "node:perf_hooks";
import { type Telemetry } from "./telemetry.ts";

/** Gives the telemetry what the operating system and the event loop say of this process, until it is disposed of. */
export function observeProcess(telemetry: Telemetry): Disposable {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const stack = new DisposableStack();
  stack.defer(() => delay.disable());
  stack.use(telemetry.observe("process.memory.usage", () => [[{}, process.memoryUsage.rss()]]));
  stack.use(
    telemetry.observe("process.cpu.time", () => {
      const { user, system } = process.cpuUsage();
      return [
        [{ mode: "user" }, user / 1e6],
        [{ mode: "system" }, system / 1e6],
      ];
    }),
  );
  stack.use(
    telemetry.observe("nodejs.eventloop.delay", () => {
      // The histogram has the whole interval between two samples; what is above the resolution is delay.
      const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1e3);
      const [p50, p99, max] = [delay.percentile(50), delay.percentile(99), delay.max];
      delay.reset();
      return [
        [{ statistic: "p50" }, seconds(p50)],
        [{ statistic: "p99" }, seconds(p99)],
        [{ statistic: "max" }, seconds(max)],
      ];
    }),
  );
  return stack;
}

const RESOLUTION_MS = 20;
