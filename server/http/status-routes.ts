import { Code } from "@connectrpc/connect";
import { type Telemetry } from "#runtime/telemetry.ts";
import { toConnectError } from "../errors.ts";
import { jsonAnswer, textAnswer } from "./http-answer.ts";
import { type HttpRoute } from "./http-routes.ts";
import { isServing, type Readiness } from "../ready.ts";

/** GET /healthz: the process runs and answers. It says nothing of what the process depends on. */
export const healthzRoute: HttpRoute = {
  method: "GET",
  path: "/healthz",
  handle: () => jsonAnswer(200, { status: "ok" }),
};

/**
 * GET /readyz: every service with its dependencies and reasons, or one of them by `?service=`.
 *
 * One service: 200 where it is ready, else 503; 404 where there is no such service. The whole: 200 while at least one
 * service is ready, so that a load balancer goes on sending events while PostgreSQL alone is away; `status` then is
 * "partial".
 */
export function readyzRoute(readiness: Readiness): HttpRoute {
  return {
    method: "GET",
    path: "/readyz",
    handle({ query }) {
      const { report } = readiness;
      const name = query.get("service");
      if (name === null) return jsonAnswer(isServing(report) ? 200 : 503, report);
      const service = readiness.of(name);
      if (service === undefined) {
        throw toConnectError({
          code: Code.NotFound,
          reason: "NOT_FOUND",
          message: `There is no service "${name.slice(0, 128)}". The services are ${Object.keys(report.services).join(", ")}.`,
        });
      }
      const dependencies = Object.fromEntries(
        service.dependencies.map((each) => [each, report.dependencies[each]]),
      );
      return jsonAnswer(service.ready ? 200 : 503, { service: name, ...service, dependencies });
    },
  };
}

/** GET /metrics: the metrics in Prometheus' text format. */
export function metricsRoute(telemetry: Telemetry): HttpRoute {
  return {
    method: "GET",
    path: "/metrics",
    async handle() {
      const { body, contentType } = await telemetry.page();
      return textAnswer(200, body, contentType);
    },
  };
}
