import { flag, period, type Period } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What the maintain role does beside what it always does. */
export interface MaintenanceConfig {
  readonly retention: Period | undefined;
  readonly retentionDrop: boolean;
}

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
  },
  join: (values) => values,
};
