// A real OpenID Connect provider (oidc-provider) on loopback, over TLS: provider.mjs PORT_FILE CERT KEY. Clients ci-build and
// web get access tokens as JWTs (client_credentials) for the audience urn:muxd. Commands come by standard input, each answered by a
// line: "rotate ALG" (another key, the old one gone), "slow", "gone", "back", "redirect".
import fs from 'node:fs'
import https from 'node:https'
import readline from 'node:readline'
import { generateKeyPairSync } from 'node:crypto'
import Provider from 'oidc-provider'

const [portFile, cert, key] = process.argv.slice(2)
const kinds = { RS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }], EdDSA: ['ed25519', {}] }
let provider, mode = 'back', number = 0, port = 0

function keyOf(alg) {
  const { privateKey } = generateKeyPairSync(...kinds[alg])
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${++number}-${alg}`, alg, use: 'sig' }
}
function begin(alg) {
  const p = new Provider(`https://127.0.0.1:${port}`, {
    jwks: { keys: [keyOf(alg)] },
    clients: ['ci-build', 'web'].map((client_id) => ({ client_id, client_secret: 'sesame', grant_types: ['client_credentials'], redirect_uris: [], response_types: [], id_token_signed_response_alg: alg })),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource) => ({ scope: 'rounds files', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg } } }),
      },
    },
    enabledJWA: { idTokenSigningAlgValues: [alg] },
    cookies: { keys: ['no secret'] },
    extraTokenClaims: () => ({ muxd_agents: ['ci-one', 'ci-two'] }),
  })
  provider = p.callback()
}
const server = https.createServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }, (req, res) => {
  if (mode === 'slow' && req.method === 'GET') return
  if (mode === 'redirect' && req.method === 'GET') return res.writeHead(302, { location: `https://127.0.0.1:${port}/else` }).end()
  return provider(req, res)
})
server.listen(0, '127.0.0.1', () => {
  port = server.address().port
  begin('RS256')
  fs.writeFileSync(portFile, String(port))
})
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [command, alg] = line.split(' ')
  const done = () => console.log(line)
  if (command === 'rotate') begin(alg)
  else mode = command
  if (command === 'gone') return server.close(done), server.closeAllConnections()
  if (command === 'back' && !server.listening) return server.listen(port, '127.0.0.1', done)
  return done()
}).on('close', () => process.exit(0))
