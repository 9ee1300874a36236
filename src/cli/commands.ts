import type { Command } from "commander";
import type { Io } from "./io.ts";

/** The groups of `--help` and of docs/reference/commands.md, in their order. */
export const commandGroups = ["Run", "Inspect", "Repair", "Develop"] as const;

interface CommandEntry {
  readonly name: string;
  readonly group: (typeof commandGroups)[number];
  /** Its options and arguments, as the list of commands in `--help` shows them (test/integration/cli/help.test.ts). */
  readonly usage: string;
  readonly summary: string;
  /** The command's file. Its `build` adds options, help text and action. */
  load(): Promise<{ build(command: Command, io: Io): void }>;
}

/**
 * Every command, group by group, in the order of `--help` and docs/reference/commands.md. Only the file of the command that runs is loaded. It
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
    summary: "run the relay until it is stopped",
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
    summary: "make the running relay read its settings and secrets again, and show what changed",
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
    summary: "register sent messages, so that the relay tracks them and releases their parked events",
    load: () => import("./track.ts"),
  },
  {
    name: "send",
    group: "Run",
    usage: "[options]",
    summary: "send one message through the messaging service and register it, once per key",
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
    summary: "copy everything from SQLite to PostgreSQL, or back",
    load: () => import("./migrate.ts"),
  },
  {
    name: "doctor",
    group: "Inspect",
    usage: "[options]",
    summary: "check settings, store, disk, clock, destinations, API keys and backlog, and show what to do",
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
    summary: "list, show and save received events",
    load: () => import("./events.ts"),
  },
  {
    name: "deliveries",
    group: "Inspect",
    usage: "",
    summary: "list and count deliveries",
    load: () => import("./deliveries.ts"),
  },
  {
    name: "explain",
    group: "Inspect",
    usage: "[options] <name>",
    summary: "show what happened to a message, run or event: its events, the verdict of each route, each attempt, and what is next",
    load: () => import("./explain.ts"),
  },
  {
    name: "audit",
    group: "Inspect",
    usage: "[options]",
    summary: "verify from the rows that every event is accounted for",
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
    summary: "send all deliveries again that match a filter: dead letters, or delivered ones too",
    load: () => import("./replay.ts"),
  },
  {
    name: "resume",
    group: "Repair",
    usage: "[options] [route]",
    summary: "send again to a destination that stopped (410 Gone), paused (429) or fails (its breaker is open)",
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
    summary: "replace the store by a backup, and keep the old store",
    load: () => import("./restore.ts"),
  },
  {
    name: "sandbox",
    group: "Develop",
    usage: "[options]",
    summary: "run a local messaging service, so that you need no account",
    load: () => import("./sandbox.ts"),
  },
  {
    name: "demo",
    group: "Develop",
    usage: "[options]",
    summary: "run a relay beside the sandbox for about 12 seconds: sends, statuses, faults, and a downstream that fails",
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
    summary: "forward the live events of a deployed relay to this machine, byte for byte, and catch up after sleep",
    load: () => import("./listen.ts"),
  },
  {
    name: "verify",
    group: "Develop",
    usage: "[options]",
    summary: "find out how a captured request was signed, and print the settings for it",
    load: () => import("./verify.ts"),
  },
];
