# The application of a real Sidekiq server. Each run goes into the list
# "ruby:runs" of its own database: [class, args, the whole job as JSON].
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)

class Notes
  def call(_worker, job, queue)
    Sidekiq.redis { |r| r.rpush("ruby:runs", JSON.generate([job["class"], job["args"], queue, JSON.generate(job, max_nesting: 0)], max_nesting: 0)) }
    yield
  end
end

Sidekiq.configure_server do |c|
  c.options[:poll_interval_average] = 0.5
  c.server_middleware { |chain| chain.add(Notes) }
  c.on(:startup) { $stderr.puts "worker.rb: started" }
end

class Record
  include Sidekiq::Worker

  def perform(*) = nil
end

class Fail < Record
  def perform(*) = raise(ArgumentError, "ruby says no")
end

# Waits in Go.
class Gate < Record; end

# Succeeds here, fails in Go.
class FailInGo < Record; end

# Succeeds in Go, fails here.
class FailInRuby < Fail; end
