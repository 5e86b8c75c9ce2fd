<?php
// What an application of Laravel has anyway, made of Debian's packages, without Composer: a container, the
// queue on Redis, the cache, and failed_jobs in SQLite.

foreach (['Queue', 'Redis', 'Database', 'Events', 'Cache', 'Encryption', 'Bus'] as $package) {
    require_once "Illuminate/$package/autoload.php";
}

use Illuminate\Bus\Dispatcher as BusDispatcher;
use Illuminate\Cache\CacheManager;
use Illuminate\Container\Container;
use Illuminate\Contracts\Bus\Dispatcher as BusContract;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Encryption\Encrypter as EncrypterContract;
use Illuminate\Contracts\Events\Dispatcher as EventsContract;
use Illuminate\Database\Capsule\Manager as Database;
use Illuminate\Encryption\Encrypter;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Connectors\RedisConnector;
use Illuminate\Queue\Failed\DatabaseUuidFailedJobProvider;
use Illuminate\Queue\QueueManager;
use Illuminate\Redis\RedisManager;
use Illuminate\Support\Facades\Facade;
use Illuminate\Support\Fluent;

function env_or(string $name, $default)
{
    $value = getenv($name);
    return $value === false ? $default : $value;
}

class Application extends Container
{
    public function isDownForMaintenance()
    {
        return false;
    }
}

class Handler implements ExceptionHandler
{
    public function report(Throwable $e)
    {
        say('exception', ['message' => $e->getMessage()]);
    }

    public function shouldReport(Throwable $e)
    {
        return true;
    }

    public function render($request, Throwable $e)
    {
    }

    public function renderForConsole($output, Throwable $e)
    {
    }
}

// dispatch is what a chain calls.
function dispatch($job)
{
    return Container::getInstance()->make(BusContract::class)->dispatch($job);
}

function say(string $event, array $fields = [])
{
    fwrite(STDOUT, json_encode(['event' => $event] + $fields) . "\n");
}

$app = new Application();
Container::setInstance($app);
$app->instance(Container::class, $app);
$app->instance(Illuminate\Contracts\Container\Container::class, $app);
Facade::setFacadeApplication($app);

$server = ['host' => '127.0.0.1', 'port' => (int) env_or('REDIS_PORT', 6379)];
$app->instance('config', new Fluent([
    'queue.default' => 'redis',
    'queue.connections.redis' => [
        'driver' => 'redis', 'connection' => 'default', 'queue' => 'default',
        'retry_after' => (int) env_or('RETRY_AFTER', 90),
        'block_for' => env_or('BLOCK_FOR', null) === null ? null : (int) env_or('BLOCK_FOR', 0),
    ],
    'cache.default' => 'redis',
    'cache.stores.redis' => ['driver' => 'redis', 'connection' => 'cache'],
    'cache.prefix' => 'laravel_cache',
]));
$app->instance('redis', new RedisManager($app, 'phpredis', [
    'client' => 'phpredis',
    'options' => ['prefix' => env_or('REDIS_PREFIX', 'laravel_database_')],
    'default' => $server + ['database' => (int) env_or('REDIS_DB', 0)],
    'cache' => $server + ['database' => (int) env_or('CACHE_DB', 1)],
]));
$app->instance('events', $events = new Dispatcher($app));
$app->instance(EventsContract::class, $events);
$app->instance(ExceptionHandler::class, new Handler());
$app->instance('cache', $cache = new CacheManager($app));
$app->instance(Illuminate\Contracts\Cache\Factory::class, $cache);
$app->bind(Illuminate\Contracts\Cache\Repository::class, fn () => $cache->store());
$encrypter = new Encrypter(base64_decode(substr(env_or('APP_KEY', 'base64:' . base64_encode(str_repeat('k', 32))), 7)), 'AES-256-CBC');
$app->instance('encrypter', $encrypter);
$app->instance(EncrypterContract::class, $encrypter);
$app->instance(Illuminate\Encryption\Encrypter::class, $encrypter);

$queues = new QueueManager($app);
$queues->addConnector('redis', fn () => new RedisConnector($app['redis']));
$app->instance('queue', $queues);
$app->instance(Illuminate\Contracts\Queue\Factory::class, $queues);
$bus = new BusDispatcher($app, fn ($connection = null) => $queues->connection($connection));
$app->instance(BusContract::class, $bus);
$app->instance(BusDispatcher::class, $bus);

$file = env_or('FAILED_DB', ':memory:');
if ($file !== ':memory:' && !file_exists($file)) {
    touch($file);
}
$database = new Database($app);
$database->addConnection(['driver' => 'sqlite', 'database' => $file], 'default');
$database->getConnection('default')->statement('create table if not exists failed_jobs (id integer primary key, uuid text unique not null,
    connection text, queue text, payload text, exception text, failed_at text)');
$failer = new DatabaseUuidFailedJobProvider($database->getDatabaseManager(), 'default', 'failed_jobs');
$app->instance('queue.failer', $failer);
