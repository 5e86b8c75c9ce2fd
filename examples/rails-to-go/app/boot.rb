# What config/environment.rb is in a Rails app.
require "sidekiq"
Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=)
Dir[File.join(__dir__, "workers", "*.rb")].sort.each { |file| require file }
