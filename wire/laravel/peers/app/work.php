<?php
// queue:work: the worker of Laravel, with its options, and its row for a failed job.
require __DIR__ . '/bootstrap.php';

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\JobProcessing;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;

$o = getopt('', ['queue:', 'once', 'tries:', 'backoff:', 'timeout:', 'sleep:', 'memory:', 'max-jobs:', 'max-time:', 'stop-when-empty']);
foreach (['processing' => JobProcessing::class, 'processed' => JobProcessed::class, 'failed' => JobFailed::class] as $name => $class) {
    $events->listen($class, fn ($e) => say($name, ['job' => $e->job->resolveName(), 'attempt' => $e->job->attempts()]));
}
$events->listen(JobFailed::class, fn ($e) => $failer->log($e->connectionName, $e->job->getQueue(), $e->job->getRawBody(), $e->exception));
$worker = new Worker($queues, $events, $app[ExceptionHandler::class], fn () => false);
$worker->setCache($cache->store());
$options = new WorkerOptions(
    'default', $o['backoff'] ?? 0, (int) ($o['memory'] ?? 128), (int) ($o['timeout'] ?? 60), (float) ($o['sleep'] ?? 0.1), (int) ($o['tries'] ?? 1),
    false, isset($o['stop-when-empty']), (int) ($o['max-jobs'] ?? 0), (int) ($o['max-time'] ?? 0)
);
$names = $o['queue'] ?? 'default';
say('ready');
if (isset($o['once'])) {
    $worker->runNextJob('redis', $names, $options);
    exit(0);
}
exit($worker->daemon('redis', $names, $options));
