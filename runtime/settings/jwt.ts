import { duration, file, oneOf, pem, text, url } from "./forms.ts";
import { type Group, type Report } from "./setting.ts";

/** The signature algorithms that tokens may be pinned to. */
export type JwtAlgorithm = `${"HS" | "RS" | "ES"}${256 | 384 | 512}` | "EdDSA";

/** Where the key that verifies tokens comes from. */
export type JwtKeySource =
  | { readonly kind: "secret"; readonly secret: string }
  | { readonly kind: "publicKey"; readonly pem: string }
  | { readonly kind: "jwks"; readonly url: string };

/** How tokens are verified. */
export interface JwtConfig {
  readonly algorithm: JwtAlgorithm;
  readonly key: JwtKeySource;
  /** What a token must name; undefined: not checked. */
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  readonly leewayMs: number;
}

interface Values {
  readonly algorithm: JwtAlgorithm;
  readonly secret: string | undefined;
  readonly publicKey: string | undefined;
  readonly publicKeyFile: string | undefined;
  readonly jwksUrl: string | undefined;
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  readonly leewayMs: number;
}

/** RFC 7518 section 3.2: a key as long as the hash's output, or longer. */
const LEAST_BYTES = { HS256: 32, HS384: 48, HS512: 64 } as const;

/** The settings behind {@link JwtConfig}. */
export const JWT: Group<Values, JwtConfig> = {
  title: "Server: tokens",
  settings: {
    algorithm: {
      name: "WEIR_JWT_ALGORITHM",
      form: oneOf("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"),
      required: true,
      unit: "algorithm",
      meaning: "The one signature algorithm that is accepted: HS256–512, RS256–512, ES256–512 or EdDSA.",
    },
    secret: {
      name: "WEIR_JWT_SECRET",
      form: text.refine((value) => Buffer.byteLength(value) >= LEAST_BYTES.HS256, {
        error: ({ input }) =>
          `must have at least 32 bytes, 48 for HS384, 64 for HS512; it has ${Buffer.byteLength(String(input))}`,
      }),
      unit: "text",
      secret: true,
      meaning:
        "The shared secret of an HS algorithm; at least 32 bytes for HS256, 48 for HS384, 64 for HS512.",
    },
    publicKey: {
      name: "WEIR_JWT_PUBLIC_KEY",
      form: pem,
      unit: "PEM",
      meaning:
        "The public key (SPKI or X.509) of an RS, ES or EdDSA algorithm. Line breaks may be written as \\n.",
    },
    publicKeyFile: {
      name: "WEIR_JWT_PUBLIC_KEY_FILE",
      form: file.pipe(pem),
      unit: "path",
      meaning: "A file with the public key, instead of WEIR_JWT_PUBLIC_KEY.",
    },
    jwksUrl: {
      name: "WEIR_JWKS_URL",
      form: url("https:", "http:").refine(
        (value) => !/^\w+:\/\/[^/?#]*@/.test(value),
        "must not hold a user name or password: a key set is public",
      ),
      unit: "URL",
      meaning: "Where the issuer publishes its keys as a JSON Web Key Set, instead of a key given here.",
    },
    issuer: {
      name: "WEIR_JWT_ISSUER",
      form: text,
      unit: "text",
      meaning: "The issuer that a token must name (iss). Unset: not checked.",
    },
    audience: {
      name: "WEIR_JWT_AUDIENCE",
      form: text,
      unit: "text",
      meaning: "The audience that a token must name (aud). Unset: not checked.",
    },
    leewayMs: {
      name: "WEIR_JWT_LEEWAY",
      form: duration("0s", "10m"),
      default: "30s",
      unit: "duration",
      meaning: "How far the issuer's clock may differ from ours.",
    },
  },
  rules: [
    {
      of: ["secret", "publicKey", "publicKeyFile", "jwksUrl"],
      judge(keys, report) {
        const [first, second] = keySources(keys);
        if (first === undefined || second === undefined) return;
        const reason = "tokens are verified by exactly one source of keys";
        report(second[0], `must not be set beside ${first[0]}: ${reason}`);
      },
    },
  ],
  join({ algorithm, issuer, audience, leewayMs, ...keys }, report) {
    const key = keySource(algorithm, keys, report);
    return key === undefined ? undefined : { algorithm, key, issuer, audience, leewayMs };
  },
};

type Keys = Pick<Values, "secret" | "publicKey" | "publicKeyFile" | "jwksUrl">;
type Source = readonly [variable: `WEIR_${string}`, JwtKeySource];

/** Every source of keys that is set, with its variable. */
function keySources({ secret, publicKey, publicKeyFile, jwksUrl }: Keys): readonly Source[] {
  const sources: Source[] = [];
  if (secret !== undefined) sources.push(["WEIR_JWT_SECRET", { kind: "secret", secret }]);
  if (publicKey !== undefined) sources.push(["WEIR_JWT_PUBLIC_KEY", { kind: "publicKey", pem: publicKey }]);
  if (publicKeyFile !== undefined) {
    sources.push(["WEIR_JWT_PUBLIC_KEY_FILE", { kind: "publicKey", pem: publicKeyFile }]);
  }
  if (jwksUrl !== undefined) sources.push(["WEIR_JWKS_URL", { kind: "jwks", url: jwksUrl }]);
  return sources;
}

/** The first source of keys, of the kind that the algorithm takes. */
function keySource(algorithm: JwtAlgorithm, keys: Keys, report: Report): JwtKeySource | undefined {
  const symmetric = algorithm.startsWith("HS");
  const [first] = keySources(keys);
  if (first === undefined) {
    const wanted = symmetric
      ? "WEIR_JWT_SECRET"
      : "WEIR_JWT_PUBLIC_KEY, WEIR_JWT_PUBLIC_KEY_FILE or WEIR_JWKS_URL";
    report("WEIR_JWT_ALGORITHM", `is ${algorithm}, so the key must be set: ${wanted}`);
    return undefined;
  }
  const [name, key] = first;
  if (symmetric !== (key.kind === "secret")) report(name, `does not go with WEIR_JWT_ALGORITHM ${algorithm}`);
  if (key.kind === "secret" && Object.hasOwn(LEAST_BYTES, algorithm)) {
    const least = LEAST_BYTES[algorithm as keyof typeof LEAST_BYTES];
    const actual = Buffer.byteLength(key.secret);
    if (actual < least) report(name, `must have at least ${least} bytes for ${algorithm}; it has ${actual}`);
  }
  return key;
}
