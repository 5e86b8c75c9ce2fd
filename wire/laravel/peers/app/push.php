<?php
// Carries out commands, a line of JSON each, and says what came of each in another line.
require __DIR__ . '/bootstrap.php';

use App\Jobs\Resize;
use App\Jobs\Secret;
use App\Jobs\Step;

$queue = $queues->connection('redis');
while (($line = fgets(STDIN)) !== false) {
    $c = json_decode($line, true);
    $name = $c['queue'] ?? 'default';
    $data = $c['data'] ?? [];
    switch ($c['do']) {
        case 'push':
            $got = $queue->push($c['job'], $data, $name);
            break;
        case 'later':
            $got = $queue->later($c['delay'], $c['job'], $data, $name);
            break;
        case 'raw':
            $got = $queue->pushRaw($c['payload'], $name);
            break;
        case 'resize':
            $got = $queue->push(new Resize($data), '', $name);
            break;
        case 'secret':
            $got = $queue->push(new Secret($data), '', $name);
            break;
        case 'chain':
            $got = $queue->push((new Step())->chain([new Step()]), '', $name);
            break;
        case 'restart':
            $got = $cache->store()->forever('illuminate:queue:restart', time());
            break;
        case 'pause':
            $got = $cache->store()->forever("illuminate:queue:paused:redis:$name", true);
            break;
        case 'failed':
            $got = array_map(fn ($row) => (array) $row, $failer->all());
            break;
        case 'retry':
            $row = $failer->find($c['uuid']);
            $payload = json_decode($row->payload, true);
            $payload['attempts'] = 0;
            $queues->connection($row->connection)->pushRaw(json_encode($payload), $row->queue);
            $got = $failer->forget($c['uuid']);
            break;
        case 'size':
            $got = $queue->size($name);
            break;
    }
    say($c['do'], ['got' => $got]);
}
