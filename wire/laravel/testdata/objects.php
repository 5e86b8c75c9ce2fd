<?php
// Prints lines of JSON: a name, what serialize() makes of an object, and PHP's view of that object:
// the shapes are described at viewer in php_test.go.
error_reporting(E_ALL & ~E_DEPRECATED); // which Serializable is
ini_set('display_errors', 'stderr');

enum Suit: string { case Aces = 'A'; case Kings = 'K'; }
enum Plain { case One; }

class Base { private $hidden = 'base'; protected $kept = 'base'; public $open = 'base'; }
class Job extends Base {
    private $hidden = 'job'; protected ?array $list = null; public readonly int $fixed; public int $unset;
    public function __construct(public mixed $value = null) { $this->fixed = 7; }
}
class Slept { public $a = 1; protected $b = 2; private $c = 3; public $d = 4; public function __sleep() { return ['c', 'a', 'b']; } }
class Own { public function __construct(private array $data) {} public function __serialize(): array { return $this->data; } public function __unserialize(array $data): void { $this->data = $data; } }
class Old implements Serializable {
    public $v;
    public function __construct($v) { $this->v = $v; }
    public function serialize() { return serialize($this->v); }
    public function unserialize($text) { $this->v = unserialize($text); }
}

function main($what, $seed) {
    foreach ($what === 'random' ? random_cases($seed) : cases() as $name => $object) {
        $text = serialize($object);
        $read = unserialize($text);
        $ids = [];
        echo json_encode(['name' => "$name", 'text' => base64_encode($text), 'view' => view($read, $ids),
            'time' => isset($read->at) ? $read->at->format('U.u') : ''], JSON_UNESCAPED_SLASHES), "\n";
    }
}

function view($v, array &$ids) {
    switch (true) {
        case $v === null: return ['N'];
        case is_bool($v): return ['b', $v];
        case is_int($v): return ['i', "$v"];
        case is_float($v): return ['d', is_nan($v) ? 'NAN' : bin2hex(pack('E', $v))];
        case is_string($v): return ['s', base64_encode($v)];
        case is_array($v): return ['a', entries($v, $ids)];
        case $v instanceof UnitEnum: return ['E', get_class($v), $v->name];
        case $v instanceof Old: return ['C', get_class($v), base64_encode($v->serialize())];
    }
    $id = spl_object_id($v);
    if (isset($ids[$id])) return ['r', $ids[$id]];
    $ids[$id] = count($ids) + 1;
    if (method_exists($v, '__serialize')) $properties = $v->__serialize();
    else {
        $properties = (array) $v;
        if ($v instanceof Slept) $properties = ["\0Slept\0c" => 3, 'a' => 1, "\0*\0b" => 2];
    }
    return ['O', get_class($v), entries($properties, $ids, true)];
}

function entries(array $values, array &$ids, bool $names = false) {
    $entries = [];
    foreach ($values as $key => $value) $entries[] = [is_int($key) && !$names ? $key : base64_encode($key), view($value, $ids)];
    return $entries;
}

function cases() {
    yield 'scopes' => new Job(new Job);
    foreach ([null, true, false, 0, -1, PHP_INT_MAX, PHP_INT_MIN, 0.1, -0.0, 1.0E+25, 1e100, 5e-324, 1.5, 100000.0, INF, -INF, NAN,
        '', "quote \" and }; and \\n", "NUL \0 and \xff\xfe", 'grün 日本', "\r\n\t", [], [[]], [1, 2, 3], [1 => 'a', 0 => 'b'],
        ['k' => 1, 'l' => ['m' => [null, true]]], ['' => 0, -5 => 1, '08' => 2, '8' => 3], Suit::Aces, Plain::One, [Suit::Aces, Suit::Aces, Suit::Kings],
        new ArrayObject(['x' => new ArrayObject([1])]), new ArrayIterator([3]), new SplStack, new SplFixedArray(2), new Slept,
        new Own([3 => 'a', 'k' => new Own([])]), new Old(['a', new Own([])]), [new Old(1), 'after', new Job],
        (object) ['1' => 'numeric name'], new LogicException('exceptions hold strings and arrays'),
    ] as $i => $value) yield "value $i" => new Job($value);
    foreach (['2024-07-15 12:00:00.123456 +05:30', '2024-01-15 12:00:00 -00:01:15', '2024-01-15T12:00:00Z', '2024-01-15 12:00:00.5 America/New_York',
        '2024-07-15 12:00:00 America/New_York', '1999-12-31 23:59:59 UTC', '1890-01-01 Europe/Amsterdam',
        ...array_map(fn($zone) => "2024-02-15 12:00:00 $zone", explode(' ', 'GMT WET WEST BST CET CEST EET EEST MSK JST EST EDT CST CDT MST MDT PST PDT')),
    ] as $date) foreach (['DateTime', 'DateTimeImmutable'] as $class) yield "$class $date" => (object) ['at' => new $class($date)];

    $job = new Job; $job->value = [$job, [$job]]; yield 'self' => $job;
    $job = new Job; $job->open = 5; $job->value = &$job->open; yield 'shared scalar' => $job;
    $list = [1, 'x']; $job = new Job; $job->open = &$list; $job->value = [&$list, &$list]; yield 'shared array' => $job;
    $a = new Job; $b = new Job($a); $a->open = [$b, $b]; yield 'each other' => new Job([$a, $b, Suit::Aces, $b, Suit::Aces, $a]);
    $o = new stdClass; $a = new Job($o); $a->open = &$a->value; yield 'shared object' => new Job([$a, $o, &$a->value, $o]);
    $s = new SplObjectStorage; $s[$o] = $a; $s[new Job] = 'data'; yield 'storage' => new Job([$o, $s, $a, $s]);
    $own = new Own([$o, 'k' => [$o], 'self' => null]); yield 'own' => new Job([$o, $own, $own, $o]);
    $old = new Old('x'); yield 'references before C:' => new Job([$o, $old, $o]);
}

// Graphs of objects and arrays in which objects occur again and places are shared.
function random_cases($seed) {
    mt_srand($seed);
    for ($n = 0; $n < 300; $n++) {
        $made = [];
        $value = function ($depth) use (&$value, &$made) {
            $pick = mt_rand(0, $depth > 4 ? 7 : 13);
            switch (true) {
                case $pick < 5: return [null, mt_rand() - 1e9, (bool) mt_rand(0, 1), mt_rand() / 7, random_string()][$pick];
                case $pick < 6: return [Suit::Aces, Suit::Kings, Plain::One][mt_rand(0, 2)];
                case $pick < 8: return $made ? $made[array_rand($made)] : 0;
                case $pick < 10:
                    $array = [];
                    for ($i = mt_rand(0, 4); $i > 0; $i--) $array[mt_rand(0, 1) ? random_string() : mt_rand(-3, 9)] = $value($depth + 1);
                    return $array;
            }
            $made[] = $o = [new Job, new stdClass, new Own([])][mt_rand(0, 2)];
            if ($o instanceof Own) $o->__unserialize([$value($depth + 1), 'k' => $value($depth + 1)]);
            else { $o->open = $value($depth + 1); $o->value = $value($depth + 1); }
            return $o;
        };
        $root = new Job;
        $made[] = $root;
        $root->value = [$value(0), $value(0), $value(0)];
        $root->open = $value(0);
        $places = array_values(array_filter($made, fn($o) => !$o instanceof Own));
        for ($i = mt_rand(0, 4); $i > 0; $i--) {
            $from = $places[array_rand($places)];
            $to = $places[array_rand($places)];
            if (!is_array($from->open)) $to->value = &$from->open; // an array in itself has no view
        }
        yield "random $n" => $root;
    }
}

function random_string() {
    $text = '';
    for ($i = mt_rand(0, 5); $i > 0; $i--) $text .= chr(mt_rand(0, 255));
    return $text;
}

main($argv[1], (int) ($argv[2] ?? 0));
