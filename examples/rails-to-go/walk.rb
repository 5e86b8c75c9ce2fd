# Moves PriceWorker from Ruby to Go and back, on a Redis of its own, and shows
# what the app can see of it: nothing. README.md tells the same in words.
#
#     ruby walk.rb        # or make example, which installs what is missing

require "fileutils"
require "json"
require "socket"
require "tmpdir"

# Processes are the things that walk.rb starts. All of them end with it.
class Processes
  def initialize(dir) = (@dir, @pids = dir, {})

  def start(name, *command)
    log = File.join(@dir, "#{name}.log")
    @pids[name] = spawn(*command, chdir: __dir__, out: [log, "a"], err: [log, "a"], pgroup: true)
  end

  def stop(name)
    pid = @pids.delete(name) or return
    Process.kill("TERM", pid)
    deadline = now + 20
    sleep 0.05 until (done = Process.wait(pid, Process::WNOHANG)) || now > deadline
    return $?.exitstatus if done
    Process.kill("KILL", -pid)
    Process.wait(pid)
    nil
  end

  def stop_all = @pids.keys.reverse_each { |name| stop(name) }

  def running?(name) = Process.wait(@pids[name], Process::WNOHANG).nil?

  def logs = Dir[File.join(@dir, "*.log")].sort.map { |file| "--- #{file}\n#{File.read(file)[-3000..] || File.read(file)}" }.join

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

DIR = Dir.mktmpdir("rails-to-go-")
RUN = Processes.new(DIR)
at_exit do
  RUN.stop_all
  FileUtils.rm_rf(DIR)
end

# Waits for what other processes do.
def await(what, seconds = 60)
  deadline = RUN.now + seconds
  until (value = yield)
    abort("\nnot within #{seconds} s: #{what}\n#{RUN.logs}") if RUN.now > deadline
    sleep 0.05
  end
  value
end

# A free port below those that the system gives to whoever asks for any: nobody
# gets it before redis-server has it.
def free_port
  port = rand(10_000...20_000)
  TCPServer.open("127.0.0.1", port) { port }
rescue Errno::EADDRINUSE
  retry
end

PORT = free_port
ENV["REDIS_URL"] = "redis://127.0.0.1:#{PORT}/0"
ENV.delete("REDIS_PROVIDER")
RUN.start("redis", "redis-server", "--port", PORT.to_s, "--bind", "127.0.0.1", "--save", "", "--dir", DIR)

require_relative "app/boot"
require "sidekiq/api"
$stdout.sync = true

def redis(&block) = Sidekiq.redis(&block)

def title(text) = puts("\n== #{text}")

def check(what, holds)
  puts "   #{holds ? "ok    " : "NOT OK"} #{what}"
  $failed = true unless holds
end

def sidekiq(config) = RUN.start("sidekiq", "sidekiq", "-r", "./app/boot.rb", "-C", config, "-g", "shop")

def busy_page = Sidekiq::ProcessSet.new.map { |p| "#{p.tag}: pid #{p["pid"]}, queues #{p.queues.join(", ")}, #{p["concurrency"]} threads" }.sort

def stats
  s = Sidekiq::Stats.new
  {processed: s.processed, failed: s.failed, enqueued: s.enqueued, retries: s.retry_size, dead: s.dead_size}
end

# Waits until a day's jobs are done but for the one that fails, and returns that
# one's bytes in the retry set. It is put off, so that it stays where it is.
def worked_off
  await("all jobs are done") do
    stats[:enqueued].zero? && stats[:retries] == 1 && redis { |r| r.hlen("shop:prices") == 11 && r.hlen("shop:mails") == 12 }
  end
  entry = Sidekiq::RetrySet.new.first
  check("the job with an unknown article waits 15 to 25 s for its retry", (entry.at.to_f - entry["failed_at"]).between?(15, 25))
  raw = redis { |r| r.zrange("retry", 0, -1) }[0]
  entry.reschedule(Time.now + 3600)
  raw
end

def prices = redis { |r| r.hgetall("shop:prices") }

await("redis-server answers") { redis { |r| r.ping } == "PONG" rescue nil }
abort("another Redis answers at port #{PORT}") unless redis { |r| r.config(:get, "dir") }.values[0] == File.realpath(DIR)
redis { |r| { "tea" => 450, "cup" => 1290 }.each { |article, cents| r.hset("shop:articles", article, cents.to_s) } }

title "1. Ruby alone: three workers, three queues"
system(RbConfig.ruby, "app/enqueue.rb", chdir: __dir__, exception: true)
PUSHED = redis { |r| r.lrange("queue:prices", 0, -1) }
puts "   the app has pushed #{PUSHED.size} PriceWorker jobs, such as", "   #{PUSHED.last}"
sidekiq("config/sidekiq.yml")
RUBY_RETRY = worked_off
RUBY_PRICES = prices
await("the first beat") { busy_page.size == 1 }
puts "   Busy page:", busy_page.map { |line| "     #{line}" }
RUN.stop("sidekiq")
RUBY_STATS = stats
puts "   Stats: #{RUBY_STATS}"

title "2. The same day again, with PriceWorker in Go"
system("go", "build", "-o", File.join(DIR, "prices"), "./prices", chdir: __dir__, exception: true)
redis { |r| r.del("shop:prices", "shop:mails", "shop:reports", "retry", "stat:processed", "stat:failed") }
system(RbConfig.ruby, "app/enqueue.rb", chdir: __dir__, exception: true)
redis do |r| # these very bytes instead, to compare what becomes of them
  r.del("queue:prices")
  PUSHED.reverse_each { |raw| r.lpush("queue:prices", raw) }
end
sidekiq("config/sidekiq.moved.yml")
await("Ruby runs") { busy_page.size == 1 }
RUN.start("prices", File.join(DIR, "prices"))
GO_RETRY = worked_off
await("Go's first beat") { busy_page.size == 2 }
puts "   Busy page:", busy_page.map { |line| "     #{line}" }
check("TERM ends Go with exit code 0", RUN.stop("prices") == 0)
RUN.stop("sidekiq")
puts "   Stats: #{stats}"

title "3. What has changed"
check("the prices are the same", prices == RUBY_PRICES)
check("the statistics are the same", stats == RUBY_STATS)
puts "   the retry that Ruby wrote: #{RUBY_RETRY}", "   the retry that Go wrote:   #{GO_RETRY}"
ruby_job, go_job = JSON.parse(RUBY_RETRY), JSON.parse(GO_RETRY)
differ = (ruby_job.keys | go_job.keys).reject { |key| ruby_job[key] == go_job[key] }
check("the same fields in the same order", ruby_job.keys == go_job.keys)
check("only failed_at differs, by the time in between", differ == ["failed_at"])
failed = /("failed_at":)[0-9.]+/
check("every other byte is the same", RUBY_RETRY.sub(failed, '\1') == GO_RETRY.sub(failed, '\1'))
entry = Sidekiq::RetrySet.new.first
puts "   Retries page: #{entry.klass} #{entry.args}, queue #{entry.queue}, #{entry["error_class"]}: #{entry["error_message"]}"

title "4. Roll back: Ruby takes the queue again"
redis { |r| r.hset("shop:articles", "spoon", "150") }
sidekiq("config/sidekiq.yml")
await("Ruby runs") { busy_page.size == 1 }
puts "   Busy page:", busy_page.map { |line| "     #{line}" }
Sidekiq::RetrySet.new.retry_all # the button Retry All: the shop has spoons now
await("the job that failed in Go is done in Ruby") { prices.size == 12 }
check("the job that failed in Go has succeeded in Ruby", stats[:retries].zero?)
RUN.stop("sidekiq")
puts "   Stats: #{stats}"
check("one run more than before: nothing was lost, nothing ran twice", stats.values_at(:processed, :failed, :dead) == [RUBY_STATS[:processed] + 1, 1, 0])

title($failed ? "Something has changed" : "PriceWorker moved, and nothing else changed")
exit(false) if $failed
