<?php
// Prints lines of JSON: a cipher, an APP_KEY, and a job encrypted as Laravel's Encrypter does.
foreach (['aes-256-cbc' => 32, 'aes-128-cbc' => 16, 'aes-256-gcm' => 32, 'aes-128-gcm' => 16] as $cipher => $size) {
    for ($length = 0; $length < 33; $length++) { // all lengths of the padding
        $key = random_bytes($size);
        $object = serialize((object) ['secret' => str_repeat('é"', $length)]);
        $iv = random_bytes(openssl_cipher_iv_length($cipher));
        $tag = $mac = '';
        if (str_ends_with($cipher, 'gcm')) $value = openssl_encrypt(serialize($object), $cipher, $key, 0, $iv, $tag);
        else $value = openssl_encrypt(serialize($object), $cipher, $key, 0, $iv);
        $iv = base64_encode($iv);
        $tag = base64_encode($tag);
        if ($tag === '') $mac = hash_hmac('sha256', $iv . $value, $key);
        $text = base64_encode(json_encode(compact('iv', 'value', 'mac', 'tag'), JSON_UNESCAPED_SLASHES));
        echo json_encode(['cipher' => $cipher, 'key' => 'base64:' . base64_encode($key), 'text' => $text, 'object' => base64_encode($object)]), "\n";
    }
}
