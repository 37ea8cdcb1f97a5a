import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

/** A certificate and its private key in PEM. */
export interface TestCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate for localhost and 127.0.0.1, signed by itself and good for an hour (RFC 5280; Node can make none). */
export function createCertificate(): TestCertificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const algorithm = sequence(oid("2a8648ce3d040302")); // ecdsa-with-SHA256
  const name = sequence(set(sequence(oid("550403"), tlv(0x0c, Buffer.from("localhost")))));
  const now = Date.now();
  const names = sequence(tlv(0x82, Buffer.from("localhost")), tlv(0x87, Buffer.from([127, 0, 0, 1])));
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))), // version 3
    tlv(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    sequence(time(now - 60_000), time(now + 3_600_000)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(
      0xa3,
      sequence(extension("551d13", sequence(tlv(0x01, Buffer.from([0xff])))), extension("551d11", names)),
    ),
  );
  const signature = sign("sha256", body, privateKey);
  const der = sequence(body, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = (der.toString("base64").match(/.{1,64}/g) ?? []).join("\n");
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function tlv(tag: number, content: Uint8Array): Buffer {
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tlv(0x30, Buffer.concat(parts));
}

function set(...parts: readonly Uint8Array[]): Buffer {
  return tlv(0x31, Buffer.concat(parts));
}

function oid(hex: string): Buffer {
  return tlv(0x06, Buffer.from(hex, "hex"));
}

function time(at: number): Buffer {
  const text = new Date(at)
    .toISOString()
    .replaceAll(/[-:T]|\.\d+/g, "")
    .slice(2);
  return tlv(0x17, Buffer.from(text));
}

function extension(id: string, value: Uint8Array): Buffer {
  return sequence(oid(id), tlv(0x04, value));
}
