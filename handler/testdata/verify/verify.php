<?php
// Throws unless the request is troupe's, unchanged, and at most five minutes old.
function verify(string $secret, string $signature, string $body): void
{
    preg_match('/\bt=(\d+)/', $signature, $time);
    preg_match('/\bv1=([0-9a-f]+)/', $signature, $mac);
    $expected = hash_hmac('sha256', ($time[1] ?? '') . '.' . $body, $secret);
    if (!hash_equals($expected, $mac[1] ?? '')) {
        throw new RuntimeException('bad signature');
    }
    if (abs(time() - (int) ($time[1] ?? 0)) > 300) {
        throw new RuntimeException('too old');
    }
}
