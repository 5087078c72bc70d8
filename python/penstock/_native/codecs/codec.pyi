from penstock.serialization.pure.codec import Codec as Codec
