# What Sidekiq itself writes: jobs in queues and in the three sets.
require 'sidekiq/api'
Sidekiq.configure_client { |c| c.redis = { url: ENV['REDIS_URL'] } }
now = Time.now.to_f
hour = 3600
Sidekiq.redis do |r|
  4.times do |i|
    r.sadd('queues', 'low')
    r.lpush('queue:low', Sidekiq.dump_json('class' => 'Resize', 'args' => [i, { 'password' => 'x' }], 'jid' => "q#{i}", 'queue' => 'low',
      'created_at' => now - 2.5 * hour, 'enqueued_at' => now - 2.5 * hour))
  end
end
Sidekiq.redis do |r|
  r.sadd('queues', 'default')
  r.lpush('queue:default', Sidekiq.dump_json('class' => 'Mail', 'args' => ['日本語の宛先'], 'jid' => 'm1', 'queue' => 'default', 'enqueued_at' => now - 30.5 * 60))
end
Sidekiq::Client.push('class' => 'Pay', 'args' => [12345678901234567890], 'queue' => 'low', 'jid' => 's1', 'at' => now + 5.5 * hour)
fails = { 'class' => 'Pay', 'args' => [{ 'token' => 'x', 'n' => 1 }], 'queue' => 'default', 'jid' => 'r1', 'retry' => true, 'created_at' => now - 9.5 * hour,
  'enqueued_at' => now - 2.5 * hour, 'error_class' => 'Net::HTTPFatalError', 'error_message' => "502 Bad \e[31mGateway\n", 'failed_at' => now - 8.5 * hour, 'retry_count' => 3 }
Sidekiq.redis do |r|
  r.zadd('retry', now + 1.5 * hour, Sidekiq.dump_json(fails))
  r.zadd('retry', now - 1.5 * hour, Sidekiq.dump_json(fails.merge('jid' => 'r2', 'class' => '支払いワーカー', 'error_message' => 'zeit überschritten')))
  r.set('stat:processed', 12345)
  r.set('stat:failed', 67)
  r.zadd('dead', now - 50.5 * hour, 'junk')
end
died = Sidekiq.dump_json(fails.merge('jid' => 'd1', 'error_class' => 'RuntimeError', 'error_message' => 'gone'))
Sidekiq::DeadSet.new.kill(died, notify_failure: false)
Sidekiq.redis { |r| r.zadd('dead', now - 3.5 * hour, died) }
