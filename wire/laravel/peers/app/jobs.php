<?php

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldBeEncrypted;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\SerializesModels;

// ran notes a run, for the tests of both sides.
function ran(string $name, $data, int $attempt)
{
    static $redis;
    $redis ??= new \Redis();
    $redis->isConnected() || $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
    $redis->rPush('runs', json_encode(['side' => 'php', 'job' => $name, 'data' => $data, 'attempt' => $attempt, 'at' => microtime(true)], JSON_PRESERVE_ZERO_FRACTION));
}

// behave does what the data of a job asks for.
function behave($job, array $data)
{
    if (isset($data['sleep'])) {
        usleep((int) ($data['sleep'] * 1e6));
    }
    if (($data['fail'] ?? 0) >= $job->attempts()) {
        throw new \RuntimeException('asked to fail');
    }
}

class Task
{
    public function fire($job, $data)
    {
        ran('task', $data, $job->attempts());
        behave($job, (array) $data);
        if (isset($data['release']) && $job->attempts() == 1) {
            $job->release($data['release']);
            return;
        }
        $job->delete();
    }

    public function failed($data, $e)
    {
        ran('failed', $data, 0);
    }
}

enum Size: string
{
    case Small = 's';
    case Large = 'l';
}

class Point
{
    public ?Point $next = null;

    public function __construct(public int $x, protected float $y, private string $name)
    {
    }
}

class Resize implements ShouldQueue
{
    use InteractsWithQueue, Queueable, SerializesModels;

    public $tries = 3;
    public $first;
    public $second;
    public array $list = [1, 'two', null, 3.5, ['a' => true]];
    public Size $size = Size::Large;
    public \DateTimeImmutable $at;
    protected string $quiet = "quo\"te\0nul";
    private int $own = -7;

    public function __construct(public array $data = [])
    {
        $this->first = $this->second = new Point(1, 2.5, 'p');
        $this->first->next = $this->first;
        $this->at = new \DateTimeImmutable('2026-11-22 10:20:30.5', new \DateTimeZone('Europe/Berlin'));
    }

    public function handle()
    {
        ran('resize', $this->data, $this->attempts());
        behave($this->job, $this->data);
    }
}

class Secret extends Resize implements ShouldBeEncrypted
{
}

class Step implements ShouldQueue
{
    use InteractsWithQueue, Queueable;

    public function handle()
    {
        ran('step', [], $this->attempts());
    }
}
