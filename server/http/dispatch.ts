import { Code } from "@connectrpc/connect";
import { type Cors } from "./cors.ts";
import { httpAnswerOf, toConnectError } from "../errors.ts";
import { writeAnswer } from "./http-answer.ts";
import { type HttpRoutes } from "./http-routes.ts";
import { type RequestHandler } from "./listener.ts";
import { type Rpc } from "./rpc.ts";

/** How the path of any RPC method looks, known or not. */
const RPC_PATH = /^\/(?:\w+\.)+\w+\/\w+$/;

/** Everything that a port serves: CORS, the plain HTTP routes, the RPC methods, and an error for any other path. */
export function createDispatch(cors: Cors, routes: HttpRoutes, rpc?: Rpc): RequestHandler {
  return (request, response) => {
    cors(request, response, () => {
      if (routes(request, response) || rpc?.serve(request, response) === true) return;
      const path = (request.url ?? "").split("?", 1)[0] ?? "";
      const answer = httpAnswerOf(RPC_PATH.test(path) ? unknownMethod(path) : unknownPath(path));
      // 404 is what gRPC and Connect clients take for UNIMPLEMENTED as well.
      void writeAnswer({ ...answer, status: 404 }, request, response);
    });
  };
}

function unknownMethod(path: string): ReturnType<typeof toConnectError> {
  return toConnectError({
    code: Code.Unimplemented,
    reason: "UNIMPLEMENTED",
    message: `There is no method ${path.slice(1, 129)} here. Server reflection lists those that there are.`,
  });
}

function unknownPath(path: string): ReturnType<typeof toConnectError> {
  return toConnectError({
    code: Code.NotFound,
    reason: "NOT_FOUND",
    message: `There is nothing at ${path.slice(0, 128)}.`,
  });
}
