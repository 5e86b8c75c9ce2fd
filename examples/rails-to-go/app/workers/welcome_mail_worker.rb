# Stays in Ruby: it renders the app's own templates.
class WelcomeMailWorker
  include Sidekiq::Worker
  sidekiq_options queue: "mailers"

  def perform(order_id)
    Sidekiq.redis { |redis| redis.hset("shop:mails", order_id.to_s, "Thank you for order #{order_id}") }
  end
end
