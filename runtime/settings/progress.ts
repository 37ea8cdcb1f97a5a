import { duration, integer } from "./forms.ts";
import { type Group } from "./setting.ts";

/** How a server follows what is stored. Times in milliseconds. */
export interface ProgressConfig {
  readonly pollMs: number;
  readonly waits: number;
}

/** The settings behind {@link ProgressConfig}. */
export const PROGRESS: Group<ProgressConfig> = {
  title: "Server: what is stored as it comes",
  settings: {
    pollMs: {
      name: "WEIR_PROGRESS_POLL",
      form: duration("50ms", "1m"),
      default: "1s",
      unit: "duration",
      meaning:
        "How often the checkpoints are looked up while somebody waits and no notification comes; with notifications they are looked up at once.",
    },
    waits: {
      name: "WEIR_PROGRESS_WAITS",
      form: integer(0, 1_000_000),
      default: "10000",
      unit: "events",
      meaning:
        "How many events may be waited for (wait_for) at once; what is beyond is answered as accepted, without a wait.",
    },
  },
  join: (values) => values,
};
