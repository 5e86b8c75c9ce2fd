<?php

namespace App\Jobs;

// Thumbnail is the hot job: the size of a thumbnail for a picture.
class Thumbnail
{
    public function fire($job, array $data)
    {
        [$width, $height] = $data['size'];
        if ($width < 1 || $height < 1) {
            throw new \InvalidArgumentException("picture {$data['picture']} has no size");
        }
        $scale = min(160 / $width, 160 / $height, 1);
        $thumb = sprintf('%dx%d', max(1, (int) ($width * $scale)), max(1, (int) ($height * $scale)));
        \shop()->hSet('shop:thumbnails', $data['picture'], $thumb);
        \queue()->push('App\Jobs\Mail@fire', ['picture' => $data['picture'], 'thumbnail' => $thumb], 'mails');
        $job->delete();
    }
}

// Mail stays in PHP.
class Mail
{
    public function fire($job, array $data)
    {
        \shop()->hSet('shop:mails', $data['picture'], "your thumbnail is {$data['thumbnail']}");
        $job->delete();
    }
}
