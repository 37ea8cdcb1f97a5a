import { describe, expect, test } from "vitest";

import { classify, isQueryTimeout } from "./failures.ts";

const withCode = (code: string): Error => Object.assign(new Error("failed"), { code });

describe("by SQLSTATE", () => {
  test.each([
    ["22001", "data", "string_data_right_truncation"],
    ["22003", "data", "numeric_value_out_of_range"],
    ["22008", "data", "datetime_field_overflow"],
    ["22021", "data", "character_not_in_repertoire"],
    ["22P02", "data", "invalid_text_representation"],
    ["22004", "operations", "null_value_not_allowed"],
    ["22P03", "operations", "invalid_binary_representation"],
    ["23000", "operations", "integrity_constraint_violation"],
    ["22P05", "data", "untranslatable_character"],
    ["23502", "operations", "not_null_violation"],
    ["23503", "operations", "foreign_key_violation"],
    ["23P01", "operations", "exclusion_violation"],
    ["23505", "operations", "unique_violation"],
    ["23514", "operations", "check_violation, which a missing partition raises"],
    ["54000", "data", "program_limit_exceeded"],
    ["54001", "data", "statement_too_complex"],
    ["54011", "operations", "too_many_columns"],
    ["54023", "operations", "too_many_arguments"],
    ["08000", "unavailable", "connection_exception"],
    ["08006", "unavailable", "connection_failure"],
    ["08P01", "unavailable", "protocol_violation"],
    ["53100", "unavailable", "disk_full"],
    ["53200", "unavailable", "out_of_memory"],
    ["53300", "unavailable", "too_many_connections"],
    ["57P01", "unavailable", "admin_shutdown"],
    ["57P02", "unavailable", "crash_shutdown"],
    ["57P03", "unavailable", "cannot_connect_now"],
    ["57014", "operations", "query_canceled"],
    ["25006", "operations", "read_only_sql_transaction"],
    ["28P01", "operations", "invalid_password"],
    ["40001", "operations", "serialization_failure"],
    ["40P01", "operations", "deadlock_detected"],
    ["42P01", "operations", "undefined_table"],
    ["42501", "operations", "insufficient_privilege"],
    ["55P03", "operations", "lock_not_available"],
    ["XX000", "operations", "internal_error"],
    ["XX001", "operations", "data_corrupted"],
  ] as const)("%s is %s (%s)", (code, expected, _name) => {
    expect(classify(withCode(code))).toBe(expected);
  });
});

test.each(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENOTFOUND", "EAI_AGAIN"])(
  "%s is unavailable",
  (code) => expect(classify(withCode(code))).toBe("unavailable"),
);

test("an error of Node for several addresses is judged by its code", () => {
  const error = Object.assign(new AggregateError([withCode("ECONNREFUSED")]), { code: "ECONNREFUSED" });
  expect(classify(error)).toBe("unavailable");
});

test("a wrapping error is judged by its cause, a deep or endless chain at some point no more", () => {
  expect(classify(new Error("batch failed", { cause: withCode("22P02") }))).toBe("data");
  const endless = new Error("round");
  endless.cause = endless;
  expect(classify(endless)).toBe("operations");
});

test.each([
  [new TypeError("x is not a function")],
  [withCode("ERR_INVALID_ARG_TYPE")],
  ["text"],
  [undefined],
])("%s, which does not come from the database, never dead-letters a record", (error) =>
  expect(classify(error)).toBe("operations"),
);

test("a query timeout is told from other failures", () => {
  expect(isQueryTimeout(withCode("57014"))).toBe(true);
  expect(isQueryTimeout(withCode("57P01"))).toBe(false);
  expect(isQueryTimeout("57014")).toBe(false);
});
