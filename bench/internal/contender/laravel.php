<?php
// Workers of Laravel, a process each, as queue:work is. They count in shared memory, and this process in
// the progress file: see progress.go. They end when this process has.
pcntl_async_signals(true);
const READY = 0, FOREIGN = 2;
$parent = getmypid();
$count = (int) getenv('TROUPE_BENCH_WORKERS');
$shared = shmop_open(ftok(getenv('TROUPE_BENCH_PROGRESS'), 'w'), 'c', 0600, 8 * $count);

class Bench
{
    public static int $own = 0;
    public static Closure $done;

    public function fire($job, $data)
    {
        (self::$done)(++self::$own);
        $job->delete();
    }
}

for ($i = 0; $i < $count; $i++) {
    if (pcntl_fork() === 0) {
        require getenv('TROUPE_BENCH_APP') . '/bootstrap.php';
        Bench::$done = fn (int $own) => shmop_write($shared, pack('q', $own), 8 * $i);
        $worker = new Illuminate\Queue\Worker($queues, $events, $app[Illuminate\Contracts\Debug\ExceptionHandler::class], fn () => posix_getppid() !== $parent && exit(0));
        $worker->daemon('redis', 'default', new Illuminate\Queue\WorkerOptions('bench', 0, 128, 60, 0.01));
        exit(0);
    }
}
$file = fopen(getenv('TROUPE_BENCH_PROGRESS'), 'r+b');
$write = function (int $word, int $value) use ($file) {
    fseek($file, 8 * $word);
    fwrite($file, pack('q', $value));
    fflush($file);
};
$write(READY, 1);
while (true) {
    usleep(1000);
    if (pcntl_wait($status, WNOHANG) > 0) {
        fwrite(STDERR, "a worker has ended\n");
        exit(1);
    }
    $write(FOREIGN, array_sum(unpack('q*', shmop_read($shared, 0, 8 * $count))));
}
