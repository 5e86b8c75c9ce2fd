# A shop on Rails, as far as its jobs go: real Sidekiq writes them, from clients and from processes
# that run them.
require "sidekiq"
require "sidekiq/api"

Sidekiq.logger.level = Logger::ERROR
Sidekiq.configure_client { |c| c.redis = { url: ENV["REDIS_URL"] } }
Sidekiq.configure_server { |c| c.redis = { url: ENV["REDIS_URL"] } }

module Net
  class ReadTimeout < StandardError; end unless const_defined?(:ReadTimeout)
end

module Images
  class Thumbnail
    include Sidekiq::Worker
    sidekiq_options queue: "images"
    def perform(*) = sleep
  end
end

module Search
  class Reindex
    include Sidekiq::Worker
    sidekiq_options queue: "search", retry: 8, backtrace: 12
    def perform(_model, id) = raise(Net::ReadTimeout, "search-2.internal:9200 did not answer within 5 s (product #{id})")
  end

  class Suggest
    include Sidekiq::Worker
    sidekiq_options queue: "search", retry: 0
    def perform(word) = raise(ArgumentError, "invalid byte sequence in UTF-8: #{word.inspect}")
  end
end

# ago runs a block at an earlier time, as far as Sidekiq knows.
module Clock
  class << self; attr_accessor :back; end
  def now(...) = super - (Clock.back || 0)
end
Time.singleton_class.prepend(Clock)

def ago(seconds)
  Clock.back = seconds
  yield
ensure
  Clock.back = nil
end

def push(jid, klass, args, queue: "default", **more)
  klass = Object.const_get(klass) if Object.const_defined?(klass) # with the options of the class
  Sidekiq::Client.push({ "jid" => jid, "class" => klass, "args" => args, "queue" => queue }.merge(more.transform_keys(&:to_s)))
end

# failed puts a job into the retry set as a process does after so many failures.
def failed(jid, klass, args, error, message, failures: 1, due: 60, queue: "default", since: 600, max: true, **more)
  now = Time.now.to_f
  job = { "retry" => max, "queue" => queue, "class" => klass, "args" => args, "jid" => jid, "created_at" => now - since, "enqueued_at" => now - 30,
          "error_message" => message, "error_class" => error, "failed_at" => now - since + 2, "retry_count" => failures - 1 }.merge(more.transform_keys(&:to_s))
  job["retried_at"] = now - 28 if failures > 1
  Sidekiq::RetrySet.new.schedule(now + due, job)
end

# died puts a job into the dead set, an hour and so ago.
def died(jid, klass, args, error, message, since: 3600, queue: "default")
  ago(since) do
    now = Time.now.to_f
    Sidekiq::DeadSet.new.kill(Sidekiq.dump_json("retry" => 5, "queue" => queue, "class" => klass, "args" => args, "jid" => jid, "created_at" => now - 4000,
      "enqueued_at" => now - 9, "error_message" => message, "error_class" => error, "failed_at" => now - 3990, "retry_count" => 5, "retried_at" => now - 2), notify_failure: false)
  end
end

# jid is an id as Sidekiq makes it, the same in each run.
def jid(n) = format("%024x", n * 0x9e3779b97f4a7c15 * 0x1000193 & (1 << 96) - 1)

# shop fills the queues and sets of the shop.
def shop
  first = %w[ada grace alan edsger barbara donald margaret ken radia linus]
  90.times do |i|
    ago(150 - i * 1.6) { push(jid(1000 + i), %w[Orders::Confirmation Shipments::Notice Newsletter::Send][i % 3], [48_210 + i, "#{first[i % 10]}@example.com"], queue: "mailers") }
  end
  37.times { |i| ago(9 - i * 0.2) { push(jid(2000 + i), %w[Inventory::Sync Carts::Remind Webhooks::Deliver][i % 3], [{ "sku" => "MUG-#{300 + i}", "warehouse" => %w[ams fra][i % 2] }]) } }
  2.times { |i| push(jid(3000 + i), "Payments::Capture", [90_071_992_547_409_931 + i, { "amount" => "49.90", "currency" => "EUR", "api_token" => "sk_live_1" }], queue: "critical", tags: ["vip"]) }
  14.times { |i| ago(900 - i) { push(jid(4000 + i), "Imports::Supplier", ["supplier-#{i + 1}.csv", 12345678901234567890], queue: "imports") } }

  failed(jid(10), "Payments::Capture", [12345678901234567890, { "amount" => "120.00", "card_token" => "tok_8a1" }], "Stripe::CardError", "Your card was declined (insufficient_funds).", failures: 3, due: 520, queue: "critical", since: 1500, max: 5, tags: ["vip"])
  failed(jid(11), "Webhooks::Deliver", ["https://partner.example/hooks/42", { "event" => "order.paid", "order" => 48_211 }], "Net::OpenTimeout", "execution expired", failures: 6, due: 1250, since: 9000)
  failed(jid(12), "Webhooks::Deliver", ["https://erp.example/inbox", { "event" => "order.shipped", "order" => 48_190 }], "OpenSSL::SSL::SSLError", "SSL_connect returned=1 errno=0 state=error: certificate verify failed (certificate has expired)", failures: 4, due: 740, since: 4000)
  failed(jid(13), "Inventory::Sync", [{ "sku" => "MUG-311", "warehouse" => "fra" }], "ActiveRecord::Deadlocked", "PG::TRDeadlockDetected: ERROR:  deadlock detected\nDETAIL:  Process 4711 waits for ShareLock on transaction 99182; blocked by process 4712.", failures: 1, due: 214, since: 40)
  failed(jid(14), "Orders::Confirmation", [48_207, "radia@example.com"], "Net::SMTPServerBusy", "421 4.7.0 Try again later, closing connection.", failures: 2, due: 331, queue: "mailers", since: 120)
  failed(jid(15), "Newsletter::Send", [1_204, "linus@example.com"], "Net::SMTPServerBusy", "421 4.7.0 Try again later, closing connection.", failures: 2, due: 345, queue: "mailers", since: 130)
  failed(jid(16), "Reports::Monthly", ["2026-10", "eu"], "NoMethodError", "undefined method `sum' for nil:NilClass", failures: 1, due: 187, queue: "default", since: 35)
  failed(jid(17), "Carts::Remind", [{ "cart" => 77_120 }], "ActiveRecord::RecordNotFound", "Couldn't find Cart with 'id'=77120", failures: 5, due: 960, since: 5200)

  died(jid(30), "Payments::Refund", [48_002, "49.90"], "Stripe::InvalidRequestError", "Charge ch_3P0 has already been refunded.", since: 2900, queue: "critical")
  died(jid(31), "Webhooks::Deliver", ["https://old-partner.example/hooks", { "event" => "order.paid" }], "SocketError", "getaddrinfo: Name or service not known", since: 9500)
  died(jid(32), "Imports::Supplier", ["supplier-9.csv", 3], "CSV::MalformedCSVError", "Unclosed quoted field in line 1182.", since: 26_000, queue: "imports")
  died(jid(33), "Webhooks::Deliver", ["https://old-partner.example/hooks", { "event" => "order.shipped" }], "SocketError", "getaddrinfo: Name or service not known", since: 31_000)
  died(jid(34), "Orders::Confirmation", [47_310, "ken@invalid"], "Net::SMTPSyntaxError", "501 5.1.3 Bad recipient address syntax", since: 88_000, queue: "mailers")

  6.times { |i| push(jid(50 + i), %w[Carts::Remind Newsletter::Send Reports::Monthly Subscriptions::Renew Carts::Remind Catalog::Publish][i], [[{ "cart" => 77_300 }], [1_205, "everyone"], ["2026-11", "eu"], [8_812], [{ "cart" => 77_301 }], ["winter-2026"]][i], queue: %w[default mailers default critical default default][i], at: Time.now.to_f + [240, 3_300, 21_000, 44_000, 900, 250_000][i]) }
end
