import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { inject } from "vitest";
import type { PostgresVersion } from "./postgres.ts";

export interface Database extends AsyncDisposable {
  readonly url: string;
  /** Ends its sessions and removes it. */
  drop(): Promise<void>;
}

/** An empty database on the run's PostgreSQL, which does not wait for the disk. */
export async function createDatabase(version: PostgresVersion = 18): Promise<Database> {
  const server = await askForServer(version);
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  await execute(server, `CREATE DATABASE ${name}`);
  const drop = () => execute(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  return { url: server.replace("/postgres?", `/${name}?`), drop, [Symbol.asyncDispose]: drop };
}

async function askForServer(version: PostgresVersion): Promise<string> {
  const socket = connect(inject("postgres"), "127.0.0.1");
  socket.write(String(version));
  const { url, error }: { url: string; error?: string } = JSON.parse(await text(socket));
  if (error !== undefined) throw new Error(error);
  return url;
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
