# The worker of Ruby's Sidekiq. It counts in the board's file: a word for each
# thread, since Ruby cannot add atomically to shared memory (see board.go).
require "sidekiq"

Sidekiq.logger.level = Logger::WARN

module Board
  FILE = File.open(ENV.fetch("TROUPE_BENCH_BOARD"), "r+b")
  READY, THREADS, FIRST_THREAD, MAX_THREADS = 0, 8, 16, 1024
  FIRST_SAMPLE = FIRST_THREAD + MAX_THREADS
  LOCK = Mutex.new
  @threads = 0

  def self.write(word, value) = FILE.pwrite([value].pack("q"), word * 8)

  def self.add
    t = Thread.current
    slot = t[:board_slot] ||= LOCK.synchronize { write(THREADS, @threads += 1) && @threads - 1 }
    write(FIRST_THREAD + slot, t[:board_done] = (t[:board_done] || 0) + 1)
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

class Bench
  include Sidekiq::Worker
  FAIL = ENV["TROUPE_BENCH_FAIL"] == "true"
  sidekiq_retry_in { 3600 } if FAIL # after the measurement

  def perform(index, at, sleep_us, _pad)
    Board.write(Board::FIRST_SAMPLE + index, Board.now - at) if at > 0
    sleep(sleep_us / 1e6) if sleep_us > 0
    Board.add
    raise "this job fails" if FAIL
  end
end

Sidekiq.configure_server do |config|
  config.on(:startup) { Board.write(Board::READY, 1) }
end
