import { randomUUID } from "node:crypto";

import { cloudEvent, type CloudEvent, type CloudEventInit } from "../sdk/index.ts";

/** What differs from one event of a type to the next. */
interface Sketch {
  readonly subject: string;
  readonly data: unknown;
  readonly severity?: string;
  readonly tags?: string;
}

/** What a type's events come from, how often beside the others, and what is in them. */
interface Kind {
  readonly source: string;
  readonly weight: number;
  readonly sketch: () => Sketch;
}

const REGIONS = ["eu", "us", "apac"];
const CURRENCIES = ["EUR", "USD", "GBP"];
const PRODUCTS = ["lamp", "chair", "desk", "shelf", "rug", "sofa", "mirror"];
const PAGES = ["/", "/lamps", "/chairs", "/cart", "/checkout", "/help"];
const CARRIERS = ["dhl", "ups", "dpd"];

/** How many of the latest orders have something happen to them. */
const RECENT_ORDERS = 500;
let orders = 0;

const below = (limit: number): number => Math.floor(Math.random() * limit);
const oneOf = <T>(values: readonly T[]): T => values[below(values.length)]!;
const price = (): number => Number((5 + Math.random() ** 3 * 995).toFixed(2));
const isOnceIn = (times: number): boolean => below(times) === 0;
/** The latest orders are the busiest. */
const recentOrder = (): string =>
  `order-${String(Math.max(1, orders - Math.floor(Math.random() ** 2 * RECENT_ORDERS)))}`;

const KINDS: Readonly<Record<string, Kind>> = {
  "com.acme.page.viewed": {
    source: "/shop/web",
    weight: 40,
    sketch: () => ({
      subject: `visitor-${String(below(2_000))}`,
      data: { path: oneOf(PAGES), ms: 20 + below(400), mobile: isOnceIn(2) },
      severity: "DEBUG",
    }),
  },
  "com.acme.order.placed": {
    source: "/shop/orders",
    weight: 15,
    sketch: () => {
      orders += 1;
      const items = Array.from({ length: 1 + below(4) }, () => ({
        product: oneOf(PRODUCTS),
        count: 1 + below(3),
      }));
      const region = oneOf(REGIONS);
      return {
        subject: `order-${String(orders)}`,
        data: {
          total: price(),
          currency: oneOf(CURRENCIES),
          customer: `customer-${String(below(5_000))}`,
          items,
        },
        severity: "INFO",
        tags: `${region},retail`,
      };
    },
  },
  "com.acme.payment.captured": {
    source: "/shop/payments",
    weight: 13,
    sketch: () => ({
      subject: recentOrder(),
      data: { amount: price(), currency: oneOf(CURRENCIES), method: oneOf(["card", "invoice", "wallet"]) },
      severity: "INFO",
    }),
  },
  "com.acme.payment.failed": {
    source: "/shop/payments",
    weight: 2,
    sketch: () => ({
      subject: recentOrder(),
      data: {
        amount: price(),
        currency: oneOf(CURRENCIES),
        error: oneOf(["card declined", "expired", "timeout"]),
      },
      severity: isOnceIn(10) ? "ERROR" : "WARN",
      tags: "payments,attention",
    }),
  },
  "com.acme.parcel.shipped": {
    source: "/warehouse",
    weight: 10,
    sketch: () => ({
      subject: recentOrder(),
      data: { carrier: oneOf(CARRIERS), kilograms: Number((Math.random() * 30).toFixed(1)) },
      severity: "INFO",
      tags: oneOf(REGIONS),
    }),
  },
  "com.acme.sensor.reading": {
    source: "/warehouse/sensors",
    weight: 20,
    sketch: () => {
      const celsius = Number((18 + Math.random() * 6 + (isOnceIn(200) ? 20 : 0)).toFixed(2));
      return {
        subject: `sensor-${String(below(64))}`,
        data: { celsius, humidity: 30 + below(40) },
        ...(celsius > 30 && { severity: "FATAL", tags: "fire,attention" }),
      };
    },
  },
};

/** The types of events that are made where nothing else is asked for. */
export const TRAFFIC_TYPES: readonly string[] = Object.keys(KINDS);

/** Makes events of these types, as a shop with a warehouse would: often seen ones often. Another type's are plain. */
export function createTraffic(types: readonly string[]): () => CloudEvent {
  const kinds = types.map((type) => [type, KINDS[type] ?? plain()] as const);
  const total = kinds.reduce((sum, [, { weight }]) => sum + weight, 0);
  return () => {
    let at = Math.random() * total;
    const [type, kind] = kinds.find(([, { weight }]) => (at -= weight) < 0) ?? kinds[0]!;
    const { subject, data, severity, tags } = kind.sketch();
    const extensions: CloudEventInit["extensions"] = {
      ...(severity !== undefined && { severitytext: severity }),
      ...(tags !== undefined && { tags }),
    };
    return cloudEvent({
      id: randomUUID(),
      source: kind.source,
      type,
      time: new Date(),
      subject,
      datacontenttype: "application/json",
      data: JSON.stringify(data),
      extensions,
    });
  };
}

function plain(): Kind {
  let made = 0;
  const sketch = (): Sketch => ({ subject: `thing-${String(below(100))}`, data: { number: (made += 1) } });
  return { source: "/generated", weight: 10, sketch };
}
