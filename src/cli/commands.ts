import type { Command } from "commander";
import type { Io } from "./io.ts";

/** The groups of `--help` and of docs/cli.md, in their order. */
export const commandGroups = ["Run", "Inspect", "Repair", "Develop"] as const;

interface CommandEntry {
  readonly name: string;
  readonly group: (typeof commandGroups)[number];
  /** Its options and arguments, as the list of commands in `--help` shows them (test/integration/cli/docs.test.ts). */
  readonly usage: string;
  readonly summary: string;
  /** The command's file. Its `build` adds options, help text and action. */
  load(): Promise<{ build(command: Command, io: Io): void }>;
}

/**
 * Every command, group by group, in the order of `--help` and docs/cli.md. Only the file of the command that runs is loaded. It
 * loads the rest when its action runs, so its help and its usage errors need no package but commander
 * (test/integration/cli/start.test.ts).
 */
export const commands: readonly CommandEntry[] = [
  {
    name: "init",
    group: "Run",
    usage: "[options]",
    summary: "write the settings of a new relay, with new secrets",
    load: () => import("./init.ts"),
  },
  {
    name: "serve",
    group: "Run",
    usage: "[options]",
    summary: "receive, track and deliver until stopped",
    load: () => import("./serve.ts"),
  },
  {
    name: "console",
    group: "Run",
    usage: "[options]",
    summary: "open the web console in a browser, signed in",
    load: () => import("./console.ts"),
  },
  {
    name: "reload",
    group: "Run",
    usage: "[options]",
    summary: "make the running relay read its settings and secrets again, and report what changed",
    load: () => import("./reload.ts"),
  },
  {
    name: "config",
    group: "Run",
    usage: "",
    summary: "check and show the settings",
    load: () => import("./config.ts"),
  },
  {
    name: "track",
    group: "Run",
    usage: "[options]",
    summary: "register messages: their events are then tracked, and those parked for them are released",
    load: () => import("./track.ts"),
  },
  {
    name: "send",
    group: "Run",
    usage: "[options]",
    summary: "send one message through the messaging service and register it; the same key never sends twice by itself",
    load: () => import("./send.ts"),
  },
  {
    name: "backup",
    group: "Run",
    usage: "[options] <file>",
    summary: "copy the store while the relay runs, and check and audit the copy",
    load: () => import("./backup.ts"),
  },
  {
    name: "migrate",
    group: "Run",
    usage: "[options]",
    summary: "copy everything in the SQLite file to the Redis of the settings; resumes where it stopped",
    load: () => import("./migrate.ts"),
  },
  {
    name: "doctor",
    group: "Inspect",
    usage: "[options]",
    summary: "check settings, store, disk, clock, destinations, API keys and backlog, and say what to do",
    load: () => import("./doctor.ts"),
  },
  {
    name: "healthcheck",
    group: "Inspect",
    usage: "[options]",
    summary: "check that the relay of the settings answers, for containers",
    load: () => import("./healthcheck.ts"),
  },
  {
    name: "events",
    group: "Inspect",
    usage: "",
    summary: "look at the events received and what became of them",
    load: () => import("./events.ts"),
  },
  {
    name: "deliveries",
    group: "Inspect",
    usage: "",
    summary: "look at the deliveries to the routes and what became of them",
    load: () => import("./deliveries.ts"),
  },
  {
    name: "explain",
    group: "Inspect",
    usage: "[options] <name>",
    summary: "show the whole story of a message, run or event: what came, what each route made of it, each attempt, what is next",
    load: () => import("./explain.ts"),
  },
  {
    name: "audit",
    group: "Inspect",
    usage: "[options]",
    summary: "verify from the rows that every event is accounted for: received = routed + filtered + …",
    load: () => import("./audit.ts"),
  },
  {
    name: "retry",
    group: "Repair",
    usage: "[options] <delivery...>",
    summary: "send deliveries again: dead letters, delivered ones, or waiting ones at once",
    load: () => import("./retry.ts"),
  },
  {
    name: "replay",
    group: "Repair",
    usage: "[options]",
    summary: "send again all deliveries that match: dead letters, or delivered ones too",
    load: () => import("./replay.ts"),
  },
  {
    name: "resume",
    group: "Repair",
    usage: "[options] [route]",
    summary: "start a route whose destination stopped (410 Gone) or paused (429 with Retry-After); what waited for it goes out",
    load: () => import("./resume.ts"),
  },
  {
    name: "reconcile",
    group: "Repair",
    usage: "[options]",
    summary: "poll the service for messages whose status went quiet, and repair what webhooks lost",
    load: () => import("./reconcile.ts"),
  },
  {
    name: "restore",
    group: "Repair",
    usage: "[options] <file>",
    summary: "put a backup in the place of the store, and keep the old one",
    load: () => import("./restore.ts"),
  },
  {
    name: "sandbox",
    group: "Develop",
    usage: "[options]",
    summary: "play the messaging service on this machine, so that no account is needed",
    load: () => import("./sandbox.ts"),
  },
  {
    name: "demo",
    group: "Develop",
    usage: "[options]",
    summary: "show the relay at work beside the sandbox: sends, their statuses back, a downstream that fails (some 12 seconds)",
    load: () => import("./demo.ts"),
  },
  {
    name: "trigger",
    group: "Develop",
    usage: "[options] [event] [name]",
    summary: "post signed sample events to the relay of the settings, or to a URL, and check the answers",
    load: () => import("./trigger.ts"),
  },
  {
    name: "listen",
    group: "Develop",
    usage: "[options]",
    summary: "bring the live events of a deployed relay to this machine, byte for byte, and catch up after sleep",
    load: () => import("./listen.ts"),
  },
  {
    name: "verify",
    group: "Develop",
    usage: "[options]",
    summary: "say how a captured request was signed, as the settings to paste",
    load: () => import("./verify.ts"),
  },
];
