<?php
// Moves App\Jobs\Thumbnail from PHP to Go and back, on a Redis of its own, and shows what the app can
// see of it. README.md tells the same in words.
//
//     php walk.php        # or make example-laravel, which installs what is missing

chdir(__DIR__);
$dir = sys_get_temp_dir() . '/laravel-to-go-' . getmypid();
mkdir($dir);
$processes = [];
$failed = false;

function start(string $name, array $command)
{
    global $processes, $dir;
    $log = ['file', "$dir/$name.log", 'a'];
    $processes[$name] = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
}

function stop(string $name)
{
    global $processes;
    proc_terminate($processes[$name]);
    proc_close($processes[$name]);
    unset($processes[$name]);
}

register_shutdown_function(function () use ($dir) {
    global $processes;
    foreach (array_reverse(array_keys($processes)) as $name) {
        stop($name);
    }
    array_map('unlink', glob("$dir/*"));
    rmdir($dir);
});

function await(string $what, callable $cond)
{
    global $dir;
    for ($end = microtime(true) + 60; !$cond(); usleep(20_000)) {
        if (microtime(true) > $end) {
            foreach (glob("$dir/*.log") as $file) {
                echo "--- $file\n", substr(file_get_contents($file), -3000);
            }
            exit("\nnot within 60 s: $what\n");
        }
    }
}

function check(string $what, bool $holds)
{
    global $failed;
    echo '   ', $holds ? 'ok     ' : 'NOT OK ', $what, "\n";
    $failed = $failed || !$holds;
}

do {
    $port = random_int(10_000, 19_999);
    $taken = @fsockopen('127.0.0.1', $port);
} while ($taken);
putenv("REDIS_PORT=$port");
putenv("FAILED_DB=$dir/failed.sqlite");
start('redis', ['redis-server', '--port', (string) $port, '--bind', '127.0.0.1', '--save', '', '--dir', $dir]);
await('redis-server answers', fn () => @fsockopen('127.0.0.1', $port) !== false);
require 'app/boot.php';

// day pushes the jobs of a day, and returns what came of them.
function day()
{
    shop()->del('shop:thumbnails', 'shop:mails');
    foreach ([[4000, 3000], [640, 480], [100, 50], [1, 9999], [0, 7]] as $i => $size) {
        queue()->push('App\Jobs\Thumbnail', ['picture' => "p$i", 'size' => $size], 'images');
    }
    queue()->later(1, 'App\Jobs\Thumbnail', ['picture' => 'late', 'size' => [300, 200]], 'images');
    await('the jobs of a day', fn () => shop()->hLen('shop:mails') === 5 && count(failures()) === 1);
    $thumbs = shop()->hGetAll('shop:thumbnails');
    $mails = shop()->hGetAll('shop:mails');
    ksort($thumbs);
    ksort($mails);
    return [$thumbs, $mails];
}

function failures()
{
    global $failer;
    return $failer->all();
}

function forget()
{
    global $failer;
    $failer->flush();
}

echo "\n== 1. PHP alone: one worker, two queues\n";
start('php', ['php', 'app/work.php', 'images,mails']);
$before = day();
foreach ($before[0] as $picture => $size) {
    echo "   $picture: $size\n";
}
check('the picture without a size is in failed_jobs', str_contains(failures()[0]->payload, '"size":[0,7]'));
forget();

echo "\n== 2. Thumbnail in Go, Mail in PHP\n";
stop('php');
exec('go build -o ' . escapeshellarg("$dir/thumbs") . ' ./thumbs 2>&1', $out, $code) . $code && exit(implode("\n", $out));
start('go', ["$dir/thumbs"]);
start('php', ['php', 'app/work.php', 'mails']);
$moved = day();
check('the thumbnails are the same', $moved[0] === $before[0]);
check('the mails are the same: Go has pushed them, PHP has run them', $moved[1] === $before[1]);
$row = failures()[0];
check('the picture without a size is in failed_jobs', str_contains($row->payload, '"size":[0,7]'));
check('the worker in Go has run the thumbnails', str_contains(file_get_contents("$dir/go.log"), 'job done'));
check('nothing is left in Redis', queue()->size('images') + queue()->size('mails') === 0);
forget();

echo "\n== 3. php artisan queue:restart\n";
$cache->store()->forever('illuminate:queue:restart', time());
await('the worker in Go ends', function () use (&$exit) {
    global $processes;
    $status = proc_get_status($processes['go']);
    $exit ??= $status['running'] ? null : $status['exitcode'];
    return !$status['running'];
});
check('the worker in Go has ended with 0', $exit === 0);

echo "\n== 4. And back: PHP alone\n";
stop('php');
start('php', ['php', 'app/work.php', 'images,mails']);
check('thumbnails and mails are the same', day() === $before);

echo $failed ? "\n== a check has failed\n" : "\n== Thumbnail moved and came back, and PHP did not notice\n";
exit($failed ? 1 : 0);
