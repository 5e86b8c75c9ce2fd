<?php
require __DIR__ . '/laravel.php';
require __DIR__ . '/jobs.php';

// shop is the application's own data.
function shop(): Redis
{
    static $redis;
    if (!$redis) {
        $redis = new Redis();
        $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
    }
    return $redis;
}

function queue()
{
    return Illuminate\Container\Container::getInstance()['queue']->connection('redis');
}
