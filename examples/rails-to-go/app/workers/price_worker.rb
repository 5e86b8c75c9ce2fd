# The hot one: a price for every basket that anybody looks at.
class PriceWorker
  include Sidekiq::Worker
  sidekiq_options queue: "prices", retry: 5

  class UnknownArticle < StandardError; end

  # basket: [{"article" => "tea", "count" => 2}, ...]; coupon: "TEN" or nil
  def perform(order_id, basket, coupon)
    Sidekiq.redis do |redis|
      cents = basket.sum do |line|
        price = redis.hget("shop:articles", line["article"])
        raise UnknownArticle, "no article #{line["article"]}" unless price
        price.to_i * line["count"]
      end
      cents = cents * 9 / 10 if coupon == "TEN"
      redis.hset("shop:prices", order_id.to_s, cents.to_s)
    end
  end
end
