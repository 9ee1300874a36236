import { z } from "zod";
import { postgresPlaceText, postgresUrlSchema, readPostgresUrl } from "../model/postgres.ts";
import { readRedisUrl, redisUrlSchema } from "../model/redis.ts";
import { scheduleSchema } from "../model/schedule.ts";
import { Secret } from "../model/secret.ts";
import { tlsSchema } from "../model/tls.ts";
import { durationSchema } from "../model/units.ts";

const sqliteSchema = z.strictObject({
  driver: z
    .literal("sqlite")
    .default("sqlite")
    .describe(
      "sqlite: one file, for one process. postgres: a database that any number of relay processes share. redis: the former shared engine, which the next release removes.",
    ),
  path: z.string().min(1).default("data/relay.db").describe("The file. A relative path starts at the working directory of the process."),
});

const postgresSchema = z.strictObject({
  driver: z
    .literal("postgres")
    .describe(
      "sqlite: one file, for one process. postgres: a database that any number of relay processes share. redis: the former shared engine, which the next release removes.",
    ),
  url: postgresUrlSchema.describe("postgres://user:password@host:5432/database, with `?sslmode=require` for TLS. The database must exist."),
  schema: z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,40}$/, "is not a schema (lower-case letters, digits and _, at most 41)")
    .default("relay")
    .describe("Holds the tables. The relay creates it. Relays that share one database without sharing events have different ones."),
  tls: tlsSchema.optional().describe("TLS with certificates of your own. The connection is then encrypted."),
});

const redisSchema = z
  .strictObject({
    driver: z
      .literal("redis")
      .describe(
        "sqlite: one file, for one process. postgres: a database that any number of relay processes share. redis: the former shared engine, which the next release removes.",
      ),
    url: redisUrlSchema.describe(
      "redis://user:password@host:6379/0, or rediss:// with TLS. With cluster or sentinel, it can have several hosts, separated by commas.",
    ),
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a prefix (letters, digits, . _ -, at most 64)")
      .default("relay")
      .describe("Begins every key, in braces. Relays that share one Redis without sharing events have different ones."),
    commandTimeout: durationSchema
      .refine((ms) => ms >= 100 && ms <= 30_000, "must be from 100ms to 30s")
      .prefault("2s")
      .describe("Longest time of a command, 100ms to 30s. A webhook that waits longer for it gets 503."),
    cluster: z.boolean().default(false).describe("The URL names nodes of a Redis Cluster. All keys of one prefix are in one hash slot."),
    sentinel: z.string().min(1).optional().describe("The URL names Sentinels, which know the primary by this name."),
  })
  .superRefine(({ url, cluster, sentinel }, context) => {
    const fault = (key: string, message: string): void => void context.addIssue({ code: "custom", path: [key], message });
    if (cluster && sentinel !== undefined) fault("sentinel", "and cluster: true exclude one another");
    // An invalid URL is reported already and is still a text.
    const place = url instanceof Secret ? readRedisUrl(url.reveal()) : null;
    if (place === null) return;
    if (cluster && place.db !== 0) fault("url", "names a database, and a Cluster has only number 0");
    if (!cluster && sentinel === undefined && place.hosts.length > 1)
      fault("url", "has several hosts: that is for cluster: true, or for sentinel: <name of the primary>");
  });

/** The engine and its place. `driver` defaults to sqlite. */
export const storageSchema = z.preprocess(
  (value) => (typeof value === "object" && value !== null && !("driver" in value) ? { driver: "sqlite", ...value } : value),
  z.discriminatedUnion("driver", [sqliteSchema, postgresSchema, redisSchema]),
);

export type StorageSettings = z.infer<typeof storageSchema>;
export type RedisSettings = z.infer<typeof redisSchema>;
export type PostgresStorage = z.infer<typeof postgresSchema>;

/** The database and schema, without user and password. */
export function postgresName({ url, schema }: PostgresStorage): string {
  const place = readPostgresUrl(url.reveal());
  return `${place === null ? "postgres" : postgresPlaceText(place)}, schema ${schema}`;
}

/** Scheduled backups of the SQLite file. */
export const backupSchema = z.strictObject({
  schedule: scheduleSchema.default("off").describe("When backups are made: a cron pattern in UTC, or off."),
  folder: z.string().min(1).default("data/backups").describe("Where backups are written. The relay creates it. Each relay needs its own."),
  keep: z.number().int().min(1).max(1000).default(7).describe("Number of newest backups that stay."),
});
export type BackupSettings = z.infer<typeof backupSchema>;
