// node bullmq.mjs PORT QUEUE TASKS WORKERS publishes tasks through BullMQ, one by one, and handles
// them with a function that does nothing. It prints the seconds and the CPU µs of both halves.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const [port, name, tasks, workers] = process.argv.slice(2).map((a, n) => n === 1 ? a : Number(a));
const connect = () => new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: null });

async function measured(work) {
  const began = process.hrtime.bigint(), before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { seconds: Number(process.hrtime.bigint() - began) / 1e9, cpu: user + system };
}

const queue = new Queue(name, { connection: connect() });
await queue.waitUntilReady();
const publish = await measured(() => Promise.all(Array.from({ length: 64 }, async (_, k) => {
  for (let n = k; n < tasks; n += 64) await queue.add('work', { order: 4711, amount: 100 }, { attempts: 10 });
})));
const handle = await measured(() => new Promise((resolve, reject) => {
  let left = tasks;
  const worker = new Worker(name, async () => {}, { connection: connect(), concurrency: workers });
  worker.on('completed', () => --left === 0 && resolve());
  worker.on('error', reject);
}));
console.log(JSON.stringify({ publish, handle }));
process.exit(0);
