;; The rules of a pocket house: the part of ALFWorld's domain that text games use, written for this project.
;; The native engine has them built in; this file is what makes a written game playable by TextWorld as well.

(define (domain alfred)

  (:requirements :adl :typing)

  (:types agent location receptacle object rtype otype)

  (:predicates
    ;; where things are
    (atLocation ?who - agent ?where - location)
    (receptacleAtLocation ?place - receptacle ?where - location)
    (objectAtLocation ?thing - object ?where - location)
    (inReceptacle ?thing - object ?place - receptacle)
    (inReceptacleObject ?inner - object ?outer - object)
    (holds ?who - agent ?thing - object)
    (holdsAny ?who - agent)
    ;; what they are
    (receptacleType ?place - receptacle ?kind - rtype)
    (objectType ?thing - object ?kind - otype)
    (canContain ?place - rtype ?thing - otype)
    (openable ?place - receptacle)
    (pickupable ?thing - object)
    (cleanable ?thing - object)
    (heatable ?thing - object)
    (coolable ?thing - object)
    (sliceable ?thing - object)
    (toggleable ?thing - object)
    (isReceptacleObject ?thing - object)
    ;; what has happened to them
    (opened ?place - receptacle)
    (checked ?what - object)
    (isClean ?thing - object)
    (isHot ?thing - object)
    (isCool ?thing - object)
    (isSliced ?thing - object)
    (isToggled ?thing - object)
  )

  ;; -- looking ------------------------------------------------------------------------------------------------

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (atLocation ?a ?l)
    :effect (checked ?l))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (checked ?a))

  (:action help
    :parameters (?a - agent)
    :precondition ()
    :effect (checked ?a))

  (:action examineReceptacle
    :parameters (?a - agent ?r - receptacle)
    :precondition (exists (?l - location) (and (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))
    :effect (checked ?r))

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (holds ?a ?o)
    :effect (checked ?o))

  ;; -- moving about -------------------------------------------------------------------------------------------

  (:action GotoLocation
    :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
    :precondition (and (receptacleAtLocation ?r ?lEnd) (atLocation ?a ?lStart))
    :effect (and (atLocation ?a ?lEnd) (not (atLocation ?a ?lStart))))

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (openable ?r) (not (opened ?r)) (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (and (checked ?r) (opened ?r)))

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (openable ?r) (opened ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (not (opened ?r)))

  ;; -- carrying -----------------------------------------------------------------------------------------------

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (pickupable ?o) (inReceptacle ?o ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)
      (not (holdsAny ?a)) (or (opened ?r) (not (openable ?r))))
    :effect (and
      (holds ?a ?o) (holdsAny ?a) (not (inReceptacle ?o ?r)) (not (objectAtLocation ?o ?l))))

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and
      (holds ?a ?o) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)
      (objectType ?o ?ot) (receptacleType ?r ?rt) (canContain ?rt ?ot)
      (or (opened ?r) (not (openable ?r))))
    :effect (and
      (inReceptacle ?o ?r) (objectAtLocation ?o ?l) (not (holds ?a ?o)) (not (holdsAny ?a))))

  ;; -- using --------------------------------------------------------------------------------------------------

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (cleanable ?o) (holds ?a ?o) (receptacleType ?r SinkBasinType)
      (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (isClean ?o))

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (heatable ?o) (holds ?a ?o) (receptacleType ?r MicrowaveType)
      (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (and (isHot ?o) (not (isCool ?o))))

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (coolable ?o) (holds ?a ?o) (receptacleType ?r FridgeType)
      (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (and (isCool ?o) (not (isHot ?o))))

  (:action SliceObject
    :parameters (?a - agent ?l - location ?co - object ?ko - object)
    :precondition (and
      (sliceable ?co) (objectAtLocation ?co ?l) (atLocation ?a ?l) (holds ?a ?ko)
      (or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType)))
    :effect (isSliced ?co))

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (toggleable ?o) (inReceptacle ?o ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (isToggled ?o))
)
