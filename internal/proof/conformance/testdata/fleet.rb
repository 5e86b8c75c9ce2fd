# The Ruby half of a mixed fleet. Each run of a job is written down at its start
# and at its end, in another database (FLEET_BOOK), as the Go half does.
require "securerandom"

Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)

BOOK = ConnectionPool.new(size: 10, timeout: 10) { Redis.new(url: ENV.fetch("FLEET_BOOK")) }

# How the machinery of Sidekiq stops a thread must not tear a note apart.
def undisturbed(&block) = Thread.handle_interrupt(Sidekiq::Shutdown => :never, &block)

# Returns how often the job has begun by now.
def note(list, entry, begun = 0)
  BOOK.with { |r|
    r.multi { |m|
      m.hincrby("fleet:begun", entry[:JID], begun)
      m.rpush(list, JSON.generate(entry))
    }.first
  }
end

class Ledger
  def call(worker, job, queue)
    undisturbed do
      run = {Run: SecureRandom.hex(6), Side: "ruby", PID: Process.pid, JID: job["jid"]}
      failures = job["retry_count"] ? job["retry_count"] + 1 : 0
      begun = note("fleet", run.merge(What: "start", Failures: failures, Queue: queue, Args: job["args"]), 1)
      worker.failures, worker.begun = failures, begun
      outcome = "failed"
      begin
        Thread.handle_interrupt(Sidekiq::Shutdown => :immediate) { yield }
        outcome = "ok"
      rescue Sidekiq::Shutdown
        outcome = "interrupted"
        raise
      ensure
        note("fleet", run.merge(What: "end", Outcome: outcome))
      end
    end
  end
end

class Fleet
  include Sidekiq::Worker
  attr_accessor :failures, :begun

  def perform(plan, *)
    sleep if plan["hang"] && begun == 1
    sleep(plan["nap"] / 1000.0)
    raise ArgumentError, "ruby says no" if failures < plan["fails"]
  end
end

# At its end 6.4.1 may cut off a beat that has taken the counters and not yet
# written them: the process waits for it here.
BEAT = Mutex.new
module WholeBeats
  def heartbeat = BEAT.synchronize { super }
end

Sidekiq.configure_server do |c|
  c.options[:poll_interval_average] = 0.5
  c.server_middleware { |chain| chain.add(Ledger) }
  c.death_handlers << ->(job, _) { note("events", {What: "death", PID: Process.pid, JID: job["jid"]}) }
  c.on(:startup) do
    Sidekiq::Launcher.prepend(WholeBeats)
    at_exit { BEAT.lock }
    $stderr.puts "fleet.rb: started"
  end
end
