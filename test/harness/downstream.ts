import { onTestFinished } from "vitest";
import {
  type Downstream,
  type DownstreamSettings,
  startDownstream,
} from "../../src/sandbox/downstream.ts";

/** The sandbox's downstream, closed at the test's end. */
export async function openDownstream(settings: DownstreamSettings = {}): Promise<Downstream> {
  const downstream = await startDownstream(settings);
  onTestFinished(() => downstream.close());
  return downstream;
}
