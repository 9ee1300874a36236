/** The sandbox cannot start; `message` is one line that says why and what to do. */
export class SandboxRefused extends Error {
  override readonly name = "SandboxRefused";
}
