<?php
require __DIR__ . '/../../../../examples/laravel-to-go/app/laravel.php';
require __DIR__ . '/jobs.php';
