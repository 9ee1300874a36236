import type { Command } from "commander";
import type { Io } from "./io.ts";

interface CommandEntry {
  readonly name: string;
  /** Its options and arguments, as the list of commands in `--help` shows them (test/integration/cli/docs.test.ts). */
  readonly usage: string;
  readonly summary: string;
  /** The command's file. Its `build` adds options, help text and action. */
  load(): Promise<{ build(command: Command, io: Io): void }>;
}

/**
 * Every command, in the order of `--help`. Only the file of the command that runs is loaded. It loads the rest when its action
 * runs, so its help and its usage errors need no package but commander (test/integration/cli/start.test.ts).
 */
export const commands: readonly CommandEntry[] = [
  {
    name: "serve",
    usage: "[options]",
    summary: "Receive, track and deliver until told to stop",
    load: () => import("./serve.ts"),
  },
  {
    name: "config",
    usage: "",
    summary: "check and show the settings",
    load: () => import("./config.ts"),
  },
  {
    name: "verify",
    usage: "[options]",
    summary: "say how a captured request was signed, as the settings to paste",
    load: () => import("./verify.ts"),
  },
  {
    name: "demo",
    usage: "[options]",
    summary: "show the relay at work beside the sandbox: sends, their statuses back, a downstream that fails (some 12 seconds)",
    load: () => import("./demo.ts"),
  },
  {
    name: "sandbox",
    usage: "[options]",
    summary: "Play the messaging service on this machine, so that no account is needed",
    load: () => import("./sandbox.ts"),
  },
  {
    name: "trigger",
    usage: "[options] [event] [name]",
    summary: "post signed sample events to the relay of the settings, or to a URL, and check the answers",
    load: () => import("./trigger.ts"),
  },
  {
    name: "listen",
    usage: "[options]",
    summary: "bring the live events of a deployed relay to this machine, byte for byte, and catch up after sleep",
    load: () => import("./listen.ts"),
  },
  {
    name: "events",
    usage: "",
    summary: "look at the events received and what became of them",
    load: () => import("./events.ts"),
  },
  {
    name: "deliveries",
    usage: "",
    summary: "look at what is owed to the routes and what became of it",
    load: () => import("./deliveries.ts"),
  },
  {
    name: "retry",
    usage: "[options] <delivery...>",
    summary: "send deliveries again: dead letters, delivered ones, or waiting ones at once",
    load: () => import("./retry.ts"),
  },
  {
    name: "replay",
    usage: "[options]",
    summary: "send again all deliveries that match: dead letters, or delivered ones too",
    load: () => import("./replay.ts"),
  },
  {
    name: "resume",
    usage: "[options] [route]",
    summary: "start a route whose destination stopped (410 Gone) or paused (429 with Retry-After); what waited for it goes out",
    load: () => import("./resume.ts"),
  },
  {
    name: "explain",
    usage: "[options] <name>",
    summary: "tell the whole story of a message, run or event: what came, what each route made of it, each attempt, what is next",
    load: () => import("./explain.ts"),
  },
  {
    name: "audit",
    usage: "[options]",
    summary: "prove from the rows that every event is accounted for: received = routed + filtered + …",
    load: () => import("./audit.ts"),
  },
  {
    name: "reconcile",
    usage: "[options]",
    summary: "ask the service about messages whose status went quiet, and repair what webhooks lost",
    load: () => import("./reconcile.ts"),
  },
  {
    name: "track",
    usage: "[options]",
    summary: "register messages: their events are then tracked, and those parked for them are released",
    load: () => import("./track.ts"),
  },
  {
    name: "send",
    usage: "[options]",
    summary: "send one message through the messaging service and register it; the same key never sends twice by itself",
    load: () => import("./send.ts"),
  },
  {
    name: "doctor",
    usage: "[options]",
    summary: "look at settings, store, disk, clock, destinations, API keys and backlog, and say what to do",
    load: () => import("./doctor.ts"),
  },
  {
    name: "migrate",
    usage: "[options]",
    summary: "carry everything in the file of driver sqlite over to the Redis of the settings; goes on where it ended",
    load: () => import("./migrate.ts"),
  },
];
