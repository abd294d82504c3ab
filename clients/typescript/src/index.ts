/**
 * muxd: sandboxes for agents, with every byte recorded. The client for node 18 and newer, without a dependency.
 *
 *     import { Sandbox } from "muxd";
 *     const sandbox = await Sandbox.create({ url: "https://127.0.0.1:8443", caFile: "tls.crt", tokenFile: "grant" });
 *     console.log((await sandbox.commands.run("uname -a")).stdout);
 */
import type { ClientOptions } from "./http.js";
import { NodeTransport, type NodeOptions } from "./node.js";
import { BaseSandbox, type CreateOptions } from "./sandbox.js";
import type { Transport } from "./transport.js";

export type SandboxOptions = CreateOptions & ClientOptions & NodeOptions;

export class Sandbox extends BaseSandbox {
  static transport(options: NodeOptions): Transport {
    return new NodeTransport(options);
  }
}

export * from "./common.js";
export type { NodeOptions } from "./node.js";
