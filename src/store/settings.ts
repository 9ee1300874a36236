import { z } from "zod";
import { postgresPlaceText, postgresUrlSchema, readPostgresUrl } from "../model/postgres.ts";
import { scheduleSchema } from "../model/schedule.ts";
import { tlsSchema } from "../net/tls.ts";

const driverText =
  "sqlite: one file, for one process. postgres: a database that any number of relay processes share.";

const sqliteSchema = z.strictObject({
  driver: z.literal("sqlite").default("sqlite").describe(driverText),
  path: z
    .string()
    .min(1)
    .default("data/relay.db")
    .describe("The file. A relative path starts at the working directory of the process."),
});

const postgresSchema = z.strictObject({
  driver: z.literal("postgres").describe(driverText),
  url: postgresUrlSchema.describe(
    "postgres://user:password@host:5432/database, with `?sslmode=require` for TLS. The database must exist.",
  ),
  schema: z
    .string()
    .regex(
      /^[a-z_][a-z0-9_]{0,40}$/,
      "is not a schema (lower-case letters, digits and _, at most 41)",
    )
    .default("relay")
    .describe(
      "Holds the tables. The relay creates it. Relays that share one database without sharing events have different ones.",
    ),
  tls: tlsSchema
    .optional()
    .describe("TLS with certificates of your own. The connection is then encrypted."),
});

const replaced =
  "Redis no longer stores events. Use PostgreSQL: storage: { driver: postgres, url: postgres://user:password@host:5432/database }";

export const storageSchema = z.preprocess(
  (value, context) => {
    if (typeof value !== "object" || value === null) return value;
    const { driver = "sqlite", url } = value as { driver?: unknown; url?: unknown };
    const isRedisUrl = typeof url === "string" && /^rediss?:/.test(url);
    if (driver === "redis" || isRedisUrl) {
      context.addIssue({
        code: "custom",
        path: [driver === "redis" ? "driver" : "url"],
        message: replaced,
      });
    }
    return { driver, ...value };
  },
  z.discriminatedUnion("driver", [sqliteSchema, postgresSchema]),
);

export type StorageSettings = z.infer<typeof storageSchema>;
export type PostgresStorage = z.infer<typeof postgresSchema>;

/** Without user and password. */
export function postgresName({ url, schema }: PostgresStorage): string {
  const place = readPostgresUrl(url.reveal());
  return `${place === null ? "postgres" : postgresPlaceText(place)}, schema ${schema}`;
}

export const backupSchema = z.strictObject({
  schedule: scheduleSchema
    .default("off")
    .describe("When backups are made: a cron pattern in UTC, or off."),
  folder: z
    .string()
    .min(1)
    .default("data/backups")
    .describe("Where backups are written. The relay creates it. Each relay needs its own."),
  keep: z
    .number()
    .int()
    .min(1)
    .max(1000)
    .default(7)
    .describe("Number of newest backups that stay."),
});
