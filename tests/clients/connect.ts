// What differs: how one comes in.
import type { NodeOptions } from "muxd";

export const options: NodeOptions & { taskId: string } = { stateDir: process.env.MUXD_STATE as string, tokenFile: process.env.TOKEN_FILE as string, taskId: "story" };

export function equal(what: string, expected: unknown, got: unknown): void {
  if (expected !== got) {
    console.error(`FAILED: ${what}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);
    process.exit(1);
  }
  console.log(`  ok: ${what}`);
}
