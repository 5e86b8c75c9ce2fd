# The application of a real Sidekiq server that keeps one concurrency limit as the gem sidekiq-throttled 2.1 is seen to do it in
# Redis: it asks after the fetch, lays a job that is refused back to the end of its queue, and frees the slot after the run.
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)

LIMIT, TRUST, SLOTS = 3, 900, "throttled:Shared:concurrency.v2"

ENTER = <<~LUA
  redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", "(" .. ARGV[1])
  local known = redis.call("ZSCORE", KEYS[1], ARGV[2])
  if not known and redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
  redis.call("ZADD", KEYS[1], ARGV[1] + ARGV[4], ARGV[2])
  redis.call("EXPIRE", KEYS[1], ARGV[4])
  return 1
LUA

module Asks
  def retrieve_work
    work = super or return
    jid = JSON.parse(work.job)["jid"]
    return work if Sidekiq.redis { |r| r.eval(ENTER, [SLOTS], [Time.now.to_f, jid, LIMIT, TRUST]) } == 1
    Sidekiq.redis { |r| r.pipelined { |p| p.lpush(work.queue, work.job); p.incr("ruby:refused") } }
    sleep 0.005
    nil
  end
end

class Leaves
  def call(_worker, job, _queue)
    yield
  ensure
    Sidekiq.redis { |r| r.zrem(SLOTS, job["jid"]) }
  end
end

Sidekiq.configure_server do |c|
  c.server_middleware { |chain| chain.add(Leaves) }
  c.on(:startup) { $stderr.puts "throttled.rb: started" }
end
Sidekiq::BasicFetch.prepend(Asks)

class Shared
  include Sidekiq::Worker

  def perform(*)
    at_once = Sidekiq.redis { |r| r.multi { |m| m.sadd("running", jid); m.scard("running") } }.last
    Sidekiq.redis { |r| r.rpush("runs", "ruby #{jid} #{at_once}") }
    sleep 0.02
  ensure
    Sidekiq.redis { |r| r.srem("running", jid) }
  end
end
