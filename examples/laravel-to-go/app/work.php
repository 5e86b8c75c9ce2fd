<?php
// php artisan queue:work redis --queue=$1
require __DIR__ . '/boot.php';

use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;

$events->listen(JobFailed::class, fn ($e) => $failer->log($e->connectionName, $e->job->getQueue(), $e->job->getRawBody(), $e->exception));
$worker = new Worker($queues, $events, $app[ExceptionHandler::class], fn () => false);
exit($worker->setCache($cache->store())->daemon('redis', $argv[1], new WorkerOptions('default', 0, 128, 60, 0.1)));
