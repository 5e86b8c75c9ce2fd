# The worker of Ruby's Sidekiq. It counts in the progress file, see progress.go.
require "sidekiq"

Sidekiq.logger.level = Logger::WARN

module Progress
  FILE = File.open(ENV.fetch("TROUPE_BENCH_PROGRESS"), "r+b")
  READY, FOREIGN, FIRST_SAMPLE = 0, 2, 8
  LOCK = Mutex.new
  @done = 0

  def self.write(word, value) = FILE.pwrite([value].pack("q"), word * 8)

  def self.add = LOCK.synchronize { write(FOREIGN, @done += 1) }

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

class Bench
  include Sidekiq::Worker
  FAIL = ENV["TROUPE_BENCH_FAIL"] == "true"
  sidekiq_retry_in { 3600 } if FAIL # after the measurement

  def perform(index, at, sleep_us, _pad)
    Progress.write(Progress::FIRST_SAMPLE + index, Progress.now - at) if at > 0
    sleep(sleep_us / 1e6) if sleep_us > 0
    Progress.add
    raise "this job fails" if FAIL
  end
end

Sidekiq.configure_server do |config|
  config.on(:startup) { Progress.write(Progress::READY, 1) }
end
