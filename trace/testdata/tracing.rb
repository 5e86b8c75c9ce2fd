# The part of opentelemetry-instrumentation-sidekiq 0.29 that another process can see, for
# machines that have no such gem: what its client middleware writes into a job, what its server
# middleware reads there, and how the spans of both belong together with its default options.
# It is no copy. The spans go into the list "spans", as JSON.
require "json"
require "securerandom"
require "sidekiq"

module Tracing
  Span = Struct.new(:name, :kind, :trace, :id, :parent, :links, :error) do
    def traceparent = "00-#{trace}-#{id}-#{Thread.current[:untraced] ? "00" : "01"}"
  end

  # The current span is that of the block.
  def self.span(name, kind, parent: nil, links: [])
    s = Span.new(name, kind, parent&.trace || SecureRandom.hex(16), SecureRandom.hex(8), parent&.id, links)
    before, Thread.current[:span] = Thread.current[:span], s
    yield s
  rescue => e
    s.error = e.class.name
    raise
  ensure
    Thread.current[:span] = before
    Sidekiq.redis { |r| r.rpush("spans", JSON.generate(s.to_h)) } unless Thread.current[:untraced]
  end

  # Spans of the block are recorded nowhere, and not sampled.
  def self.untraced
    Thread.current[:untraced] = true
    yield
  ensure
    Thread.current[:untraced] = false
  end

  class Client
    def call(_class, job, queue, _pool)
      Tracing.span("#{queue} publish", "producer", parent: Thread.current[:span]) do |s|
        job["traceparent"] = s.traceparent # whatever it was before
        yield
      end
    end
  end

  class Server
    def call(_worker, job, queue)
      _, trace, id, = job["traceparent"]&.split("-")
      Tracing.span("#{queue} process", "consumer", links: trace ? [[trace, id]] : []) { yield }
    end
  end
end

Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)
Sidekiq.configure_client { |c| c.client_middleware { |chain| chain.prepend Tracing::Client } }
Sidekiq.configure_server do |c|
  c.client_middleware { |chain| chain.prepend Tracing::Client }
  c.server_middleware { |chain| chain.prepend Tracing::Server }
  c.on(:startup) { $stderr.puts "tracing.rb: started" }
  require "sidekiq/scheduled"
  Sidekiq::Scheduled::Poller.prepend(Module.new { def enqueue = nil }) # the poller of Go is to be faster
end

class RubyStep
  include Sidekiq::Worker

  def perform
    first = Sidekiq.redis { |r| r.set("begun", 1, nx: true) }
    raise ArgumentError, "once" if first
    Sidekiq::Client.push("class" => "LastStep", "queue" => "go", "args" => [])
  end
end
