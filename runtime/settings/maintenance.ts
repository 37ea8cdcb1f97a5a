import { dataPath, flag, listOf, period, type Period } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What the maintain role does beside what it always does. */
export interface MaintenanceConfig {
  readonly retention: Period | undefined;
  readonly retentionDrop: boolean;
  /** Paths into payloads, each once. */
  readonly numberPaths: readonly (readonly (string | number)[])[];
}

const MAX_NUMBER_PATHS = 8;

/** The settings behind {@link MaintenanceConfig}. */
export const MAINTENANCE: Group<MaintenanceConfig> = {
  title: "Workers: maintenance",
  settings: {
    retention: {
      name: "WEIR_RETENTION",
      // Less would take away months that events are still accepted for.
      form: period({ months: 4, days: 124 }),
      unit: "period",
      meaning:
        "How long events stay in the store, by their time: months that are older as a whole are detached from the table. Unset: for ever.",
    },
    retentionDrop: {
      name: "WEIR_RETENTION_DROP",
      form: flag,
      default: "false",
      unit: "true or false",
      meaning:
        "Whether months that WEIR_RETENTION detaches are dropped too, for good. Else they are left to the operator.",
    },
    numberPaths: {
      name: "WEIR_SEARCH_NUMBER_PATHS",
      form: listOf(dataPath)
        .transform((paths) => [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()])
        .refine(({ length }) => length <= MAX_NUMBER_PATHS, `must be ${MAX_NUMBER_PATHS} paths at most`),
      default: "",
      unit: "list of paths",
      meaning: `The paths into payloads whose numbers have an index, such as data.amount,data.risk.score, so that searches compare them fast. Each costs time and space for every event that is stored (docs/schema.md). At most ${MAX_NUMBER_PATHS}.`,
    },
  },
  join: (values) => values,
};
