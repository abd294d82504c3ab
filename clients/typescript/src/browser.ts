/** The client for a page of muxd's own address: the page's cookie is the credential. Everything else is as in node. */
import { FetchTransport, type BrowserOptions } from "./fetch.js";
import type { ClientOptions } from "./http.js";
import { BaseSandbox, type CreateOptions } from "./sandbox.js";
import type { Transport } from "./transport.js";

export type SandboxOptions = CreateOptions & ClientOptions & BrowserOptions;

export class Sandbox extends BaseSandbox {
  static transport(options: BrowserOptions): Transport {
    return new FetchTransport(options);
  }
}

export * from "./common.js";
export type { BrowserOptions } from "./fetch.js";
