// The same, for the check against the published packages: E2B and Daytona take an API key.
export const options = { apiKey: "" };
export declare function equal(what: string, expected: unknown, got: unknown): void;
