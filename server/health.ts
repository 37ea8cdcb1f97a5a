import { Code, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "#gen/health/v1/health_pb.ts";
import { toConnectError } from "./errors.ts";
import { isServing, type Readiness } from "./ready.ts";

/**
 * grpc.health.v1 over the readiness of the services. The empty name stands for the server: it serves while at least one
 * service is ready, as /readyz has it. Health needs no token.
 */
export function createHealthService(readiness: Readiness): ServiceImpl<typeof Health> {
  const statusOf = (service: string): Status | undefined => {
    const ready = service === "" ? isServing(readiness.report) : readiness.of(service)?.ready;
    if (ready === undefined) return undefined;
    return ready ? Status.SERVING : Status.NOT_SERVING;
  };
  return {
    check({ service }) {
      const status = statusOf(service);
      if (status === undefined) throw serviceUnknown(service);
      return { status };
    },
    /** The protocol keeps the stream of an unknown service open: it may become known. Here the services are fixed. */
    async *watch({ service }, { signal }) {
      let told: Status | undefined;
      while (!signal.aborted) {
        const changed = readiness.changed(signal);
        const status = statusOf(service) ?? Status.SERVICE_UNKNOWN;
        if (status !== told) yield { status };
        told = status;
        await changed;
      }
    },
    list() {
      const names = ["", ...Object.keys(readiness.report.services)];
      return {
        statuses: Object.fromEntries(
          names.map((name) => [name, { status: statusOf(name) ?? Status.UNKNOWN }]),
        ),
      };
    },
  };
}

function serviceUnknown(service: string): Error {
  return toConnectError({
    code: Code.NotFound,
    reason: "NOT_FOUND",
    message: `There is no service "${service.slice(0, 128)}" here, or it has no health of its own.`,
  });
}
