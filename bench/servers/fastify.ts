import type { AddressInfo } from "node:net";
import { ready } from "../process/child.ts";
import { buildApp } from "./fastify-app.ts";

/** Fastify that checks the signature and stores nothing. */
const app = buildApp(() => {});
await app.listen({ port: Number(process.argv[2]), host: "127.0.0.1" });
ready((app.server.address() as AddressInfo).port);
