import { z } from "zod";

const events = {
  received: z.number(),
  forwarded: z.number(),
  filtered: z.number(),
  ignored: z.number(),
  quarantined: z.number(),
  parked: z.number(),
  // A relay of an older version knows of none.
  released: z.number().default(0),
  accepted: z.number().default(0),
  unaccounted: z.number(),
  duplicates: z.number(),
  conflicts: z.number(),
};
const deliveries = {
  planned: z.number(),
  waiting: z.number(),
  held: z.number(),
  delivered: z.number(),
  dead: z.number(),
  swept: z.number(),
  unaccounted: z.number(),
};

export const underWaySchema = z.looseObject({ checked: z.number(), of: z.number() });

export const auditSchema = z.looseObject({
  balanced: z.boolean(),
  at: z.string(),
  tookMs: z.number(),
  rows: z.looseObject({ events: z.number(), deliveries: z.number(), attempts: z.number() }),
  events: z.looseObject(events),
  days: z.array(z.looseObject({ day: z.string(), source: z.string(), ...events })),
  deliveries: z.looseObject(deliveries),
  routes: z.array(z.looseObject({ route: z.string(), ...deliveries })),
  gone: z.looseObject({ swept: z.number(), missing: z.number() }),
  broken: z.record(z.string(), z.number()),
  offenders: z.array(
    z.looseObject({
      rule: z.string(),
      event: z.number().nullable(),
      eventId: z.string().nullable(),
      route: z.string().nullable(),
      what: z.string(),
    }),
  ),
});
export type AuditView = z.infer<typeof auditSchema>;
