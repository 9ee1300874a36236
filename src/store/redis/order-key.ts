import { hash } from "node:crypto";
import type { SubjectName } from "./keys.ts";

/**
 * By what deliveries of one message are kept in order: short, because every delivery has it. Two messages that fall
 * together (one in 2^72) would wait for each other, and nothing worse.
 */
export const orderKey = (subject: SubjectName): string => hash("sha256", subject, "base64url").slice(0, 12);
